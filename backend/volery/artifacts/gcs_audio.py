"""Audio in Google Cloud Storage.

An object is fetched in parts, each when it is first read, and kept in a temporary file: a decoder
jumps about, and a flight that waits for its turn should not have fetched more than it needed to
look at. What is read is one generation of the object, whatever happens to it meanwhile.
"""

from __future__ import annotations

import hashlib
import io
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

from volery.artifacts.gcs_client import Client, Crc32c, Gcs, GcsError, Kind, Place
from volery.artifacts.names import shown
from volery.artifacts.uris import bucket_and_name
from volery.settings import ArtifactSettings
from volery.units import ArtifactsUnavailable, Reason, UnitError, UnitFailed, UnitRejected

PART_BYTES = 8 << 20

_REJECTIONS = {
    Kind.MISSING: (Reason.AUDIO_MISSING, "there is no such object or bucket"),
    Kind.FORBIDDEN: (
        Reason.AUDIO_FORBIDDEN,
        "this process may not read it; grant its service account roles/storage.objectViewer on the bucket",
    ),
}


@dataclass(frozen=True)
class _Facts:
    """One generation of an object, as it was found."""

    generation: int
    size: int
    crc32c: str | None
    encoding: str | None


class GcsSource:
    """Opens audio by `gs://` URI."""

    def __init__(self, settings: ArtifactSettings) -> None:
        self._gcs = Gcs(settings)

    def open(self, uri: str, max_bytes: int) -> GcsFile:
        """Look at the object; see `AudioSource.open`."""
        place = _place(uri)
        with _told(place):
            facts = _look(self._gcs, place)
        if facts.size > max_bytes:
            raise UnitRejected(
                Reason.AUDIO_TOO_LARGE,
                f"{shown(str(place))} holds {facts.size} bytes, over the limit of {max_bytes}; "
                "cut it, or raise BATCH_PIPELINE_AUDIO_MAX_BYTES",
            )
        if facts.encoding:
            raise UnitRejected(
                Reason.AUDIO_UNDECODABLE,
                f"{shown(str(place))} is stored with the content encoding {facts.encoding!r}; store audio without one",
            )
        return GcsFile(_Object(self._gcs, place, facts))


def _place(uri: str) -> Place:
    try:
        bucket, name = bucket_and_name(uri)
    except ValueError as error:
        raise UnitRejected(Reason.AUDIO_BAD_URI, f"the audio URI cannot be used: {error}") from error
    if not name or name.endswith("/"):
        raise UnitRejected(Reason.AUDIO_NOT_A_FILE, f"{shown(uri)} names a folder or a whole bucket, not an object")
    return Place(bucket, name)


def _look(gcs: Gcs, place: Place) -> _Facts:
    """The object as it is now.

    Raises:
        GcsError: it is not there, or cannot be looked at.
    """

    def look(client: Client, how: dict[str, Any]) -> _Facts:
        blob = client.bucket(place.bucket).blob(place.name)
        blob.reload(**how)
        return _Facts(blob.generation, blob.size, blob.crc32c, blob.content_encoding)

    return gcs.call(look)


class GcsFile:
    """One generation of an object, open for reading."""

    def __init__(self, parts: _Object) -> None:
        self._parts = parts
        self._stream = _Stream(parts)

    @property
    def stream(self) -> BinaryIO:
        """Seekable, read-only."""
        return cast(BinaryIO, self._stream)

    @property
    def size(self) -> int:
        """Bytes of this generation."""
        return self._parts.facts.size

    def sha256(self) -> str:
        """Digest of the whole object, of which it fetches what nobody has read; see `SourceFile.sha256`."""
        return self._parts.sha256()

    def close(self) -> None:
        """Release what was fetched; a second call does nothing."""
        self._stream.close()
        self._parts.close()


class _Object:
    """An object whose parts are fetched once, when they are first asked for."""

    def __init__(self, gcs: Gcs, place: Place, facts: _Facts) -> None:
        self.facts = facts
        self._gcs = gcs
        self._place = place
        self._fetched: set[int] = set()
        with _kept(place):
            self._file = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the object

    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes, as many as lie in one part.

        Raises:
            UnitRejected, UnitFailed: they cannot be had.
        """
        number = offset // PART_BYTES
        start, end = number * PART_BYTES, min((number + 1) * PART_BYTES, self.facts.size)
        if offset >= end:
            return b""
        if number not in self._fetched:
            self._keep(start, self._fetch(start, end))
            self._fetched.add(number)
        self._file.seek(offset)
        return self._file.read(min(size, end - offset))

    def sha256(self) -> str:
        """Digest of all of it, once it was compared with the checksum that is stored with it."""
        digest, checksum, offset = hashlib.sha256(), Crc32c(), 0
        while block := self.read(offset, PART_BYTES):
            digest.update(block)
            checksum.update(block)
            offset += len(block)
        if checksum.text() != self.facts.crc32c:
            raise self._damaged()
        return digest.hexdigest()

    def close(self) -> None:
        """Give the temporary file back."""
        self._file.close()

    def _keep(self, offset: int, content: bytes) -> None:
        with _kept(self._place):
            self._file.seek(offset)
            self._file.write(content)
            self._file.flush()

    def _fetch(self, start: int, end: int) -> bytes:
        received = _Received(end - start)

        def download(client: Client, how: dict[str, Any]) -> None:
            blob = client.bucket(self._place.bucket).blob(self._place.name, generation=self.facts.generation)
            # A part has no checksum of its own; `sha256` checks the whole. Raw: nothing is unpacked on the way.
            blob.download_to_file(received, start=start, end=end - 1, raw_download=True, checksum=None, **how)

        with _told(self._place, opened=True):
            self._gcs.call(download)
        if len(received.content) != end - start:
            raise self._damaged()
        return bytes(received.content)

    def _damaged(self) -> UnitError:
        """What arrived is not what was stored: because that changed, or for no reason that can be seen."""
        with _told(self._place, opened=True):
            if _look(self._gcs, self._place).generation != self.facts.generation:
                return _changed(self._place)
        return UnitFailed(
            Reason.AUDIO_UNAVAILABLE, f"{shown(str(self._place))} arrived damaged: it does not match its checksum"
        )


class _Received:
    """Takes what is sent, and no more than was asked for, however much that is."""

    def __init__(self, size: int) -> None:
        self.content = bytearray()
        self._size = size

    def write(self, block: bytes) -> int:
        """Take a block of what arrives.

        Raises:
            GcsError: it is too much.
        """
        if len(self.content) + len(block) > self._size:
            raise GcsError(Kind.UNAVAILABLE, "more was sent than was asked for")
        self.content += block
        return len(block)


class _Stream(io.RawIOBase):
    """An object as a file. A read may raise `UnitError`s, as decoders expect of their streams."""

    def __init__(self, parts: _Object) -> None:
        super().__init__()
        self._parts = parts
        self._position = 0

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move as files do; fetches nothing."""
        self._require_open()
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._parts.facts.size}[whence]
        if start + offset < 0:
            raise ValueError("there is nothing before the start of a file")
        self._position = start + offset
        return self._position

    def tell(self) -> int:
        """The position in bytes."""
        self._require_open()
        return self._position

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer, as far as there is anything to fill it with."""
        self._require_open()
        view, filled = memoryview(buffer).cast("B"), 0
        while filled < len(view) and (block := self._parts.read(self._position, len(view) - filled)):
            view[filled : filled + len(block)] = block
            filled += len(block)
            self._position += len(block)
        return filled

    def _require_open(self) -> None:
        if self.closed:
            raise ValueError("the file is closed")


@contextmanager
def _told(place: Place, *, opened: bool = False) -> Iterator[None]:
    """Turn errors of the service into what they mean for a unit; `opened` once its audio was there."""
    try:
        yield
    except GcsError as error:
        raise _meaning(place, error, opened) from error


def _meaning(place: Place, error: GcsError, opened: bool) -> UnitError:
    if opened and error.kind in (Kind.MISSING, Kind.CHANGED):
        return _changed(place)
    if error.kind in _REJECTIONS:
        reason, why = _REJECTIONS[error.kind]
        return UnitRejected(reason, f"{shown(str(place))} cannot be opened: {why} ({error.message})")
    kind = ArtifactsUnavailable if error.kind is Kind.UNUSABLE else UnitFailed
    return kind(Reason.AUDIO_UNAVAILABLE, f"{shown(str(place))} cannot be read just now: {error.message}")


def _changed(place: Place) -> UnitFailed:
    return UnitFailed(
        Reason.AUDIO_CHANGED,
        f"{shown(str(place))} changed while it was read; submit audio only once it is completely written",
    )


@contextmanager
def _kept(place: Place) -> Iterator[None]:
    """Tell where parts that were fetched cannot be kept."""
    try:
        yield
    except OSError as error:
        raise UnitFailed(
            Reason.AUDIO_UNAVAILABLE,
            f"{shown(str(place))} cannot be kept in {tempfile.gettempdir()} while it is decoded: {error.strerror}; "
            "make room there, or name another folder in TMPDIR",
        ) from error
