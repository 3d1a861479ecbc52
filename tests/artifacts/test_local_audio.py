"""Opening audio on local disks."""

from __future__ import annotations

import hashlib
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from artifacts.privileges import as_nobody
from volery.artifacts import open_source
from volery.artifacts.store import SourceFile
from volery.units import Reason, UnitFailed, UnitRejected

MANY = 1 << 30


def open_audio(uri: str | Path, max_bytes: int = MANY) -> SourceFile:
    return open_source().open(str(uri), max_bytes)


def rejection(uri: str | Path, max_bytes: int = MANY) -> Reason:
    with pytest.raises(UnitRejected) as caught:
        open_audio(uri, max_bytes)
    return caught.value.reason


@pytest.fixture
def audio(tmp_path: Path) -> Path:
    """A file that was last written long ago, so that any write to it moves its time of change."""
    path = tmp_path / "audio.wav"
    path.write_bytes(bytes(range(256)) * 10_000)
    os.utime(path, (1_000_000_000, 1_000_000_000))
    return path


def test_a_file_is_opened_by_its_uri_and_by_its_path(audio: Path) -> None:
    for uri in (audio.as_uri(), str(audio), f"file://localhost{audio}", f"FILE://{audio}", f"file:{audio}"):
        file = open_audio(uri)
        assert file.stream.read() == audio.read_bytes()
        assert file.size == len(audio.read_bytes())
        file.close()


@pytest.mark.parametrize(
    "name", ["with space.wav", "50%.wav", "50%25.wav", "take#2.wav", "why?.wav", "naïve 夏.wav", "a&b;c.wav", "+.wav"]
)
def test_odd_names_work_as_uri_and_as_path(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(name.encode())
    for uri in (path.as_uri(), str(path)):
        assert open_audio(uri).stream.read() == name.encode()


@pytest.mark.parametrize("name", ["take#2.wav", "why?.wav"])
def test_a_hash_or_question_mark_left_unencoded_belongs_to_the_name(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"x")
    assert open_audio(f"file://{tmp_path}/{name}").size == 1


def test_a_name_that_is_not_utf8_is_opened_by_its_uri(tmp_path: Path) -> None:
    name = os.fsencode(tmp_path) + b"/caf\xe9.wav"
    Path(os.fsdecode(name)).write_bytes(b"x")
    assert open_audio(f"file://{tmp_path}/caf%E9.wav").size == 1


@given(name=st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=60))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100, deadline=None)
def test_every_name_that_a_file_can_have_survives_the_uri(tmp_path: Path, name: str) -> None:
    if name in (".", ".."):
        return
    path = tmp_path / name
    path.write_bytes(b"x")
    assert open_audio(path.as_uri()).size == 1


def test_a_missing_file_is_told(tmp_path: Path, audio: Path) -> None:
    assert rejection(tmp_path / "nowhere.wav") is Reason.AUDIO_MISSING
    assert rejection(audio / "below-a-file.wav") is Reason.AUDIO_MISSING
    assert rejection("") is Reason.AUDIO_BAD_URI


@pytest.mark.parametrize(
    "uri",
    [
        "relative.wav",
        "./relative.wav",
        "file:relative.wav",
        "file://",
        "file://elsewhere/audio.wav",
        "file:///a%00b.wav",
        "/a\0b.wav",
        "/\ud800.wav",
        "/" + "n" * 300,
        "https://host/audio.wav",
        "s3:audio.wav",
        "://",
    ],
)
def test_a_uri_that_makes_no_sense_is_told(uri: str) -> None:
    assert rejection(uri) is Reason.AUDIO_BAD_URI


def test_an_unsupported_scheme_is_told_what_is_supported_and_keeps_its_secrets() -> None:
    with pytest.raises(UnitRejected, match="file:///folder/name, absolute paths and gs://bucket/name") as caught:
        open_audio("https://user:hunter2@host/audio.wav?signature=abcdef")
    assert "hunter2" not in str(caught.value)
    assert "abcdef" not in str(caught.value)


def test_a_circle_of_symbolic_links_is_told(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    assert rejection(tmp_path / "a") is Reason.AUDIO_NOT_A_FILE


def test_a_symbolic_link_to_a_file_is_followed(tmp_path: Path, audio: Path) -> None:
    (tmp_path / "link").symlink_to(audio)
    assert open_audio(tmp_path / "link").size == audio.stat().st_size


@pytest.mark.timeout(20)
def test_what_is_not_a_file_is_told_and_never_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        for path in (tmp_path, tmp_path / "pipe", tmp_path / "socket", Path("/dev/zero"), Path("/dev/tty")):
            assert rejection(path) is Reason.AUDIO_NOT_A_FILE


@pytest.mark.timeout(20)
def test_a_pipe_that_takes_the_files_name_in_the_last_moment_is_not_waited_for(
    tmp_path: Path, audio: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "pipe")
    regular = os.stat(audio)
    monkeypatch.setattr("volery.artifacts.local.os.stat", lambda path: regular)
    assert rejection(tmp_path / "pipe") is Reason.AUDIO_NOT_A_FILE


def test_a_file_that_this_process_may_not_read_is_told(open_folder: Path) -> None:
    path = open_folder / "private.wav"
    path.write_bytes(b"x")
    with as_nobody():
        assert open_audio(path).size == 1
    path.chmod(0)
    with as_nobody():
        assert rejection(path) is Reason.AUDIO_FORBIDDEN


def test_a_file_in_a_folder_that_is_closed_to_this_process_is_told(open_folder: Path) -> None:
    closed = open_folder / "closed"
    closed.mkdir()
    (closed / "audio.wav").write_bytes(b"x")
    closed.chmod(0)
    with as_nobody():
        assert rejection(closed / "audio.wav") is Reason.AUDIO_FORBIDDEN
    closed.chmod(0o700)


def test_a_refused_file_is_not_left_open(audio: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        rejection(audio, 1)
    assert len(os.listdir("/proc/self/fd")) == before


def grow(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"more")


def shrink(path: Path) -> None:
    os.truncate(path, 1000)


def rewrite(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(b"other")


Change = Callable[[Path], None]


@pytest.mark.parametrize("change", [grow, shrink, rewrite])
def test_a_file_that_changes_after_it_was_opened_is_told(audio: Path, change: Change) -> None:
    file = open_audio(audio)
    change(audio)
    with pytest.raises(UnitFailed) as caught:
        file.sha256()
    assert caught.value.reason is Reason.AUDIO_CHANGED


def change_while_digesting(monkeypatch: pytest.MonkeyPatch, path: Path, change: Change) -> None:
    pread = os.pread

    def pread_then_change(descriptor: int, size: int, offset: int) -> bytes:
        block = pread(descriptor, size, offset)
        if offset == 0:
            change(path)
        return block

    monkeypatch.setattr("volery.artifacts.local.os.pread", pread_then_change)


@pytest.mark.parametrize("change", [grow, shrink, rewrite])
def test_a_file_that_changes_while_it_is_digested_is_told(
    audio: Path, change: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = open_audio(audio)
    change_while_digesting(monkeypatch, audio, change)
    with pytest.raises(UnitFailed) as caught:
        file.sha256()
    assert caught.value.reason is Reason.AUDIO_CHANGED


def test_a_file_that_grows_beyond_the_limit_while_it_is_digested_is_too_large(
    audio: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = open_audio(audio, audio.stat().st_size)
    change_while_digesting(monkeypatch, audio, grow)
    with pytest.raises(UnitRejected) as caught:
        file.sha256()
    assert caught.value.reason is Reason.AUDIO_TOO_LARGE


def test_a_file_that_another_replaces_goes_on_being_read_as_it_was_opened(audio: Path, tmp_path: Path) -> None:
    before = audio.read_bytes()
    file = open_audio(audio)
    (tmp_path / "other").write_bytes(b"another file")
    (tmp_path / "other").replace(audio)
    assert file.sha256() == hashlib.sha256(before).hexdigest()


def test_a_disk_that_cannot_be_read_fails_the_attempt() -> None:
    unreadable = Path("/proc/self/mem")
    if not unreadable.exists():
        pytest.skip("no file here whose reading is certain to fail")
    file = open_audio(unreadable)
    with pytest.raises(UnitFailed) as caught:
        file.sha256()
    assert caught.value.reason is Reason.AUDIO_UNAVAILABLE


def test_a_file_that_holds_more_than_its_size_says_is_told() -> None:
    lying = Path("/proc/self/status")
    if not lying.exists():
        pytest.skip("no file here whose size is certain to be wrong")
    with pytest.raises(UnitFailed) as caught:
        open_audio(lying).sha256()
    assert caught.value.reason is Reason.AUDIO_CHANGED
