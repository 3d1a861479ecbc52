"""A job store over a real database, for every database that Volery runs on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio
from queue_database import Database

from volery.queue import JobStore, upgrade

if TYPE_CHECKING:
    from volery.bench.chaos.server import ThrowawayServer

DATABASES = ["sqlite", "postgresql"]


@pytest.fixture(scope="session")
def server() -> Iterator[ThrowawayServer]:
    """A PostgreSQL server for the whole run."""
    pytest.importorskip("pgserver", reason="pgserver is not installed: no PostgreSQL")
    from volery.bench.chaos.server import ThrowawayServer, memory_folder

    with ThrowawayServer(memory_folder()) as server:
        server.configure(fsync="off", synchronous_commit="off", max_connections="200")
        yield server


@pytest.fixture(scope="session")
def template(server: ThrowawayServer) -> str:
    """A database that was set up as a user does it: tests get copies."""
    name = server.create_database()
    upgrade(server.url(name))
    return name


@pytest.fixture(params=DATABASES)
def empty_database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    """A database that no schema was made in."""
    if request.param == "sqlite":
        return Database(f"sqlite:///{tmp_path / 'store.db'}")
    server = request.getfixturevalue("server")
    return Database(server.url(server.create_database()))


@pytest.fixture(params=DATABASES)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    """A database ready for a store."""
    if request.param == "sqlite":
        return Database(f"sqlite:///{tmp_path / 'store.db'}")
    return request.getfixturevalue("postgresql")()


@pytest.fixture
def sqlite(tmp_path: Path) -> Database:
    """A SQLite file, for what is about files."""
    return Database(f"sqlite:///{tmp_path / 'store.db'}")


@pytest.fixture
def postgresql(server: ThrowawayServer, template: str) -> Callable[[], Database]:
    """Makes PostgreSQL databases with the schema, for what is about PostgreSQL."""
    return lambda: Database(server.url(server.create_database(template)))


@pytest_asyncio.fixture
async def store(database: Database) -> AsyncIterator[JobStore]:
    """A store over the database."""
    store = await database.open()
    yield store
    await store.close()
