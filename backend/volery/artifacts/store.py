"""Where audio comes from and where results go, behind one interface. All calls block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Protocol


class SourceFile(Protocol):
    """An open audio file: a seekable binary stream whose size was noted when it was opened."""

    @property
    def stream(self) -> BinaryIO:
        """Seekable, read-only."""
        ...

    @property
    def size(self) -> int:
        """Bytes."""
        ...

    def sha256(self) -> str:
        """Digest of the whole file; leaves the stream's position alone.

        Call it once the audio is decoded: it vouches for all that was read since the file was opened.

        Raises:
            UnitRejected: `audio_too_large` where the file grew beyond the limit.
            UnitFailed: `audio_changed` where the file is not what it was when it was opened,
                `audio_unavailable` where it cannot be read.
        """
        ...

    def close(self) -> None:
        """Release the file; a second call does nothing."""
        ...


class AudioSource(Protocol):
    """Opens audio by URI."""

    def open(self, uri: str, max_bytes: int) -> SourceFile:
        """Open the file behind a URI.

        Raises:
            UnitRejected: it is missing, forbidden, no file, too large, or the URI makes no sense.
            ArtifactsUnavailable: this process can have no such audio at all, whatever the unit.
            UnitFailed: it cannot be had just now.
        """
        ...


@dataclass(frozen=True, slots=True)
class Stored:
    """Something that was written to a store of results, and still is there.

    `token` is the lease token that a result is named after; null for what a write that broke off
    left behind. `written_at` is in seconds since the epoch, by the clock of the store.
    """

    name: str
    token: str | None
    size: int
    written_at: float


class ResultStore(Protocol):
    """Keeps result documents under names derived from lease tokens, never from keys."""

    def write(self, token: str, document: bytes) -> str:
        """Write atomically; the artifact's name, which `read` takes. Writing the same again is harmless.

        Raises:
            ArtifactsUnavailable: nothing can be written just now, whatever the unit.
            UnitFailed: this document cannot be written. The reason of both is `publish_failed`.
        """
        ...

    def read(self, artifact: str) -> bytes:
        """The document.

        Raises:
            StoreError: it is not there or cannot be read.
        """
        ...

    def stored(self) -> Iterator[Stored]:
        """All that is in the store and was written by it, as it is listed.

        Raises:
            StoreError: it cannot be listed, or there is no such place.
        """
        ...

    def holds(self, name: str) -> bool:
        """Whether a result of this name is there.

        Raises:
            StoreError: nobody can tell.
        """
        ...

    def remove(self, name: str) -> bool:
        """Remove something that was listed, or a result by its name; False where it was gone already.

        Raises:
            StoreError: it cannot be removed.
        """
        ...

    def check(self) -> None:
        """Make sure that results can be written.

        Raises:
            ConfigurationError: this process lacks what it needs to reach the store.
            StoreError: it cannot be written to.
        """
        ...
