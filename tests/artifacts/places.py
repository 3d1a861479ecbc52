"""Places where audio lies and results go, the same to a test whatever they are."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


class Place(Protocol):
    """Somewhere that a test may write to and look into, past the code under test."""

    def put(self, name: str, content: bytes) -> str:
        """Store a file, or change the one of that name; its URI."""
        ...

    def uri(self, name: str = "") -> str:
        """The URI of a file, there or not, or of the place itself."""
        ...

    def names(self) -> list[str]:
        """What is there."""
        ...

    def grow_old(self, days: float) -> None:
        """Let everything have been written so much earlier."""
        ...


@dataclass(frozen=True)
class Folder:
    """A folder of this machine."""

    path: Path

    def put(self, name: str, content: bytes) -> str:
        """Write in place, and so that any later write moves the time of change."""
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        new = not file.exists()
        with file.open("wb" if new else "r+b") as stream:
            stream.write(content)
            stream.truncate()
        if new:
            os.utime(file, (1_000_000_000, 1_000_000_000))
        return self.uri(name)

    def uri(self, name: str = "") -> str:
        """A `file://` URI."""
        return (self.path / name).as_uri()

    def names(self) -> list[str]:
        """Paths of all files."""
        return sorted(str(path.relative_to(self.path)) for path in self.path.rglob("*") if path.is_file())

    def grow_old(self, days: float) -> None:
        """Move the times of change."""
        for path in self.path.rglob("*"):
            written = path.lstat().st_mtime - days * 86_400
            os.utime(path, (written, written))
