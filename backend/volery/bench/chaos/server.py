"""A throwaway PostgreSQL server on a UNIX socket, which can be stopped and started like a real one."""

from __future__ import annotations

import secrets
import shutil
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Literal

from pgserver._commands import pg_ctl  # type: ignore[attr-defined]  # defined as it is imported
from pgserver.postgres_server import get_server

StopMode = Literal["fast", "immediate"]
"""How a server stops: with a checkpoint and connections told, or like a crash."""

_START_SECONDS = 120


def memory_folder() -> Path | None:
    """Where files live in memory: they survive a crash of the server, though not of the machine."""
    shared = Path("/dev/shm")
    return shared if shared.is_dir() else None


class ThrowawayServer:
    """PostgreSQL in a temporary folder, durable like any other; gone when it is closed."""

    def __init__(self, parent: Path | None = None) -> None:
        """Start it with its data in a new folder under `parent`, or under the usual temporary one."""
        self._folder = Path(tempfile.mkdtemp(prefix="volery-pg-", dir=parent))
        self._server = get_server(self._folder / "data", cleanup_mode=None)
        self.socket_folder = Path(str(self._server.get_postmaster_info().socket_dir))

    def __enter__(self) -> ThrowawayServer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @property
    def data_folder(self) -> Path:
        """Where its configuration and its tables are."""
        return self._folder / "data"

    def url(
        self, database: str = "postgres", *, user: str = "postgres", password: str = "", via: Path | None = None
    ) -> str:
        """The URL of a database on it, through its own socket or through that in another folder."""
        secret = f":{password}" if password else ""
        return f"postgresql://{user}{secret}@/{database}?host={via or self.socket_folder}"

    def sql(self, statement: str) -> str:
        """Run a statement as its administrator, outside any transaction."""
        return str(self._server.psql(statement))

    def create_database(self, template: str = "template0") -> str:
        """A new database's name."""
        name = f"volery_{secrets.token_hex(4)}"
        self.sql(f"CREATE DATABASE {name} TEMPLATE {template};")
        return name

    def stop(self, mode: StopMode = "fast") -> None:
        """Stop it, whoever is connected."""
        self._control(["-w", "-m", mode, "stop"])

    def start(self) -> None:
        """Start it again; after a crash it first recovers."""
        options = ["-w", "-t", str(_START_SECONDS), "-o", f'-h "" -k {self.socket_folder}']
        self._control([*options, "-l", str(self._folder / "data" / "log"), "start"])

    def configure(self, **settings: str) -> None:
        """Change settings that a running server takes."""
        with (self.data_folder / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())
        self._control(["reload"])

    def _control(self, arguments: list[str]) -> None:
        pg_ctl(arguments, pgdata=self.data_folder, user=self._server.system_user)

    def close(self) -> None:
        """Stop it and remove its folder."""
        if (self.data_folder / "postmaster.pid").exists():
            self.stop("immediate")
        self._server.cleanup()
        shutil.rmtree(self._folder, ignore_errors=True)
