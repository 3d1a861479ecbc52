"""Audio and results on the machine's own disks, network mounts included."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from volery.artifacts.names import FOLDER, artifact_of, shown, token_of
from volery.artifacts.store import Stored
from volery.artifacts.uris import local_path
from volery.units import ArtifactsUnavailable, Reason, StoreError, UnitError, UnitFailed, UnitRejected

_READ_BYTES = 1 << 20
# What a write or a check that was killed leaves behind; see `_write_durably` and `LocalResults.check`.
_LEFTOVER = re.compile(rf"(?:{FOLDER}[0-9A-Za-z]{{2}}/\.[0-9A-Za-z]+\.[0-9a-f]{{8}}|\.check-[0-9a-f]{{16}})\.tmp")

# What an errno of opening a file says about a unit for good. Any other may pass: see `_unopened`.
_REJECTIONS = {
    errno.ENOENT: (Reason.AUDIO_MISSING, "there is no such file"),
    errno.ENOTDIR: (Reason.AUDIO_MISSING, "there is no such file: a part of its path is not a folder"),
    errno.EACCES: (Reason.AUDIO_FORBIDDEN, "this process may not read it; change its permissions or its folder's"),
    errno.EPERM: (Reason.AUDIO_FORBIDDEN, "this process may not read it; change its permissions or its folder's"),
    errno.ELOOP: (Reason.AUDIO_NOT_A_FILE, "its symbolic links lead in a circle"),
    errno.ENAMETOOLONG: (Reason.AUDIO_BAD_URI, "its name is longer than the file system allows"),
    errno.ENXIO: (Reason.AUDIO_NOT_A_FILE, "it is a socket or a device, not a file"),
}
# File systems that cannot sync a folder say so with one of these.
_NO_FOLDER_SYNC = (errno.EINVAL, errno.ENOTSUP)


class LocalSource:
    """Opens audio by `file://` URI or absolute path."""

    def open(self, uri: str, max_bytes: int) -> LocalFile:
        """Open the file; see `AudioSource.open`."""
        try:
            path = local_path(uri)
        except ValueError as error:
            raise UnitRejected(Reason.AUDIO_BAD_URI, f"the audio URI cannot be used: {error}") from error
        try:
            return _open_regular(path, max_bytes)
        except OSError as error:
            raise _unopened(path, error) from error


class LocalFile:
    """An open local file, watched for changes since it was opened.

    A file that another replaced under the same name goes on being read as it was opened.
    """

    def __init__(self, stream: BinaryIO, path: str, max_bytes: int) -> None:
        self._stream = stream
        self._path = path
        self._max_bytes = max_bytes
        self._opened = _version(stream.fileno())

    @property
    def stream(self) -> BinaryIO:
        """Seekable, read-only."""
        return self._stream

    @property
    def size(self) -> int:
        """Bytes, as the file was opened."""
        return self._opened[0]

    def sha256(self) -> str:
        """Digest of the whole file; leaves the stream's position alone.

        Called once the audio is decoded, it vouches for everything that was read since the
        file was opened: size and time of change are compared before and after it reads.

        Raises:
            UnitRejected: `audio_too_large`: the file grew beyond the limit.
            UnitFailed: `audio_changed`, or `audio_unavailable` where it cannot be read.
        """
        try:
            self._check_unchanged()
            digest = self._digest()
            self._check_unchanged()
        except OSError as error:
            raise _unread(self._path, error) from error
        return digest

    def close(self) -> None:
        """Release the file; a second call does nothing."""
        self._stream.close()

    def _digest(self) -> str:
        digest, read = hashlib.sha256(), 0
        while block := os.pread(self._stream.fileno(), _READ_BYTES, read):
            digest.update(block)
            read += len(block)
            if read > self._max_bytes:
                raise _too_large(self._path, read, self._max_bytes)
        if read != self.size:
            raise self._changed()
        return digest.hexdigest()

    def _check_unchanged(self) -> None:
        if _version(self._stream.fileno()) != self._opened:
            raise self._changed()

    def _changed(self) -> UnitFailed:
        return UnitFailed(
            Reason.AUDIO_CHANGED,
            f"{shown(self._path)} changed while it was read; submit audio only once it is completely written",
        )


class LocalResults:
    """Keeps result documents in a folder, as `results/<two characters>/<token>.json`."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def write(self, token: str, document: bytes) -> str:
        """Write atomically and durably; see `ResultStore.write`."""
        artifact = artifact_of(token)
        try:
            _write_durably(self._root / artifact, document)
        except OSError as error:
            # Only a document that is too large is to blame itself; anything else would hit any other as well.
            kind = UnitFailed if error.errno == errno.EFBIG else ArtifactsUnavailable
            said = f"cannot write {artifact} under {self._root}: {error.strerror}"
            raise kind(Reason.PUBLISH_FAILED, said) from error
        return artifact

    def read(self, artifact: str) -> bytes:
        """The document; see `ResultStore.read`."""
        if token_of(artifact) is None:
            raise StoreError(f"{shown(artifact)} is not the name of a result")
        try:
            return (self._root / artifact).read_bytes()
        except OSError as error:
            raise StoreError(f"cannot read {artifact} under {self._root}: {error.strerror}") from error

    def stored(self) -> Iterator[Stored]:
        """Results and leftovers, folder by folder; see `ResultStore.stored`."""
        try:
            if not self._root.is_dir():
                raise StoreError(
                    f"results cannot be listed: there is no folder {self._root}; correct BATCH_PIPELINE_ARTIFACTS_URL"
                )
            folders = ["", *(f"{FOLDER}{one}/" for one in _names(self._root / FOLDER))]
            for folder in folders:
                for name in _names(self._root / folder):
                    if (found := self._stored(f"{folder}{name}")) is not None:
                        yield found
        except OSError as error:
            raise StoreError(f"results cannot be listed under {self._root}: {error.strerror}") from error

    def holds(self, name: str) -> bool:
        """Look for a file; see `ResultStore.holds`."""
        try:
            return self._stored(name) is not None
        except OSError as error:
            raise StoreError(f"cannot look for {name} under {self._root}: {error.strerror}") from error

    def remove(self, name: str) -> bool:
        """Remove a file; see `ResultStore.remove`."""
        if token_of(name) is None and not _LEFTOVER.fullmatch(name):
            raise StoreError(f"{shown(name)} is not the name of a result")
        try:
            (self._root / name).unlink()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise StoreError(f"cannot remove {name} under {self._root}: {error.strerror}") from error
        return True

    def _stored(self, name: str) -> Stored | None:
        token = token_of(name)
        if token is None and not _LEFTOVER.fullmatch(name):
            return None
        try:
            found = (self._root / name).lstat()
        except (FileNotFoundError, NotADirectoryError):  # a write came to its end, or another process removed it
            return None
        return Stored(name, token, found.st_size, found.st_mtime) if stat.S_ISREG(found.st_mode) else None

    def check(self) -> None:
        """Write a file and remove it; see `ResultStore.check`."""
        probe = self._root / f".check-{secrets.token_hex(8)}.tmp"
        try:
            _make_folder(self._root)
            try:
                _write_new(probe, b"volery\n")
            finally:
                probe.unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(f"results cannot be written under {self._root}: {error.strerror}") from error


def _open_regular(path: str, max_bytes: int) -> LocalFile:
    # Opening a FIFO waits for a writer and opening a device may act on it: look first. O_NONBLOCK
    # and the second look are for what took the name in between.
    _require_regular(path, os.stat(path))
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    stream = os.fdopen(descriptor, "rb")
    try:
        found = os.fstat(descriptor)
        _require_regular(path, found)
        if found.st_size > max_bytes:
            raise _too_large(path, found.st_size, max_bytes)
        return LocalFile(stream, path, max_bytes)
    except BaseException:
        stream.close()
        raise


def _require_regular(path: str, found: os.stat_result) -> None:
    if stat.S_ISREG(found.st_mode):
        return
    kind = "a folder" if stat.S_ISDIR(found.st_mode) else "a pipe, a socket or a device"
    raise UnitRejected(Reason.AUDIO_NOT_A_FILE, f"{shown(path)} is {kind}, not a file")


def _version(descriptor: int) -> tuple[int, int]:
    found = os.fstat(descriptor)
    return found.st_size, found.st_mtime_ns


def _unopened(path: str, error: OSError) -> UnitError:
    if error.errno in _REJECTIONS:
        reason, why = _REJECTIONS[error.errno]
        return UnitRejected(reason, f"{shown(path)} cannot be opened: {why}")
    return _unread(path, error)


def _unread(path: str, error: OSError) -> UnitFailed:
    return UnitFailed(Reason.AUDIO_UNAVAILABLE, f"{shown(path)} cannot be read just now: {error.strerror}")


def _too_large(path: str, size: int, max_bytes: int) -> UnitRejected:
    return UnitRejected(
        Reason.AUDIO_TOO_LARGE,
        f"{shown(path)} holds {size} bytes or more, over the limit of {max_bytes}; "
        "cut it, or raise BATCH_PIPELINE_AUDIO_MAX_BYTES",
    )


def _names(folder: Path) -> list[str]:
    """The names in a folder, in order; none where there is no such folder."""
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _write_durably(target: Path, document: bytes) -> None:
    """Write under another name in the same folder, then rename: readers see all of it or nothing."""
    _make_folder(target.parent)
    temporary = target.with_name(f".{target.stem}.{secrets.token_hex(4)}.tmp")
    try:
        _write_new(temporary, document)
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(target.parent)


def _write_new(path: Path, content: bytes) -> None:
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _make_folder(folder: Path) -> None:
    """Make a folder and those above it, each entry on disk before anything relies on it."""
    if folder.is_dir():
        return
    _make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    _sync_folder(folder.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_FOLDER_SYNC:
            raise
    finally:
        os.close(descriptor)
