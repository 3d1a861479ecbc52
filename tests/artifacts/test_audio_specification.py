"""Audio is opened alike wherever it lies: on local disks and in Google Cloud Storage."""

from __future__ import annotations

import hashlib
import os
import wave
from pathlib import Path

import numpy as np
import pytest

from artifacts.places import Place
from volery.artifacts import SourceFile, open_source
from volery.audio import decode, probe_seconds
from volery.units import Clip, Reason, UnitFailed, UnitRejected

MANY = 1 << 30
CONTENT = bytes(range(256)) * 1000


def open_audio(uri: str, max_bytes: int = MANY) -> SourceFile:
    return open_source().open(uri, max_bytes)


def rejection(uri: str, max_bytes: int = MANY) -> Reason:
    with pytest.raises(UnitRejected) as caught:
        open_audio(uri, max_bytes)
    return caught.value.reason


def digest_or_reason(file: SourceFile) -> str:
    try:
        return file.sha256()
    except UnitFailed as error:
        return error.reason


@pytest.fixture(params=[None, 100_000])
def uri(request: pytest.FixtureRequest, place: Place, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URI of a file, fetched at once or in parts where it has to be fetched."""
    if request.param is not None:
        monkeypatch.setattr("volery.artifacts.gcs_audio.PART_BYTES", request.param)
    return place.put("audio.wav", CONTENT)


def test_a_file_is_read_whole_and_its_size_is_known(uri: str) -> None:
    file = open_audio(uri)
    assert file.stream.read() == CONTENT
    assert file.size == len(CONTENT)
    assert file.stream.read(1) == b""


def test_a_file_is_read_from_any_place(uri: str) -> None:
    stream = open_audio(uri).stream
    assert stream.seek(-300, os.SEEK_END) == len(CONTENT) - 300
    assert stream.read(1000) == CONTENT[-300:]
    assert stream.seek(99_990) == stream.tell() == 99_990
    assert stream.read(20) == CONTENT[99_990:100_010]
    stream.seek(-5, os.SEEK_CUR)
    assert stream.read(5) == CONTENT[100_005:100_010]
    stream.seek(10 * len(CONTENT))
    assert stream.read(1) == b""


def test_a_place_before_the_start_is_refused_and_the_position_kept(uri: str) -> None:
    stream = open_audio(uri).stream
    stream.seek(7)
    with pytest.raises((ValueError, OSError)):
        stream.seek(-8, os.SEEK_CUR)
    assert stream.tell() == 7


def test_the_digest_is_of_the_whole_file_and_leaves_the_position_alone(uri: str) -> None:
    file = open_audio(uri)
    file.stream.seek(1234)
    assert file.sha256() == hashlib.sha256(CONTENT).hexdigest()
    assert file.stream.tell() == 1234


def test_an_empty_file_is_opened_and_holds_nothing(place: Place) -> None:
    file = open_audio(place.put("empty.wav", b""))
    assert (file.size, file.stream.read()) == (0, b"")
    assert file.sha256() == hashlib.sha256(b"").hexdigest()


def test_a_closed_file_cannot_be_read_and_may_be_closed_again(uri: str) -> None:
    file = open_audio(uri)
    file.close()
    file.close()
    assert file.stream.closed
    with pytest.raises(ValueError, match="closed"):
        file.stream.read(1)


def test_a_closed_file_leaves_nothing_open(uri: str) -> None:
    open_audio(uri).close()  # what stays open from the first time on is a connection
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        file = open_audio(uri)
        file.stream.read()
        file.close()
    assert len(os.listdir("/proc/self/fd")) <= before + 3 * uri.startswith("gs://")


@pytest.mark.parametrize("name", ["with space.wav", "naïve 夏.wav", "a&b;c.wav", "+.wav", "deep/down/x.wav"])
def test_odd_names_work(place: Place, name: str) -> None:
    assert open_audio(place.put(name, name.encode())).stream.read() == name.encode()


def test_a_missing_file_is_told(place: Place) -> None:
    assert rejection(place.uri("nowhere.wav")) is Reason.AUDIO_MISSING


def test_a_folder_is_no_file(place: Place) -> None:
    place.put("folder/audio.wav", b"x")
    assert rejection(f"{place.uri('folder')}/") is Reason.AUDIO_NOT_A_FILE


def test_a_file_over_the_limit_is_not_read(uri: str) -> None:
    assert rejection(uri, len(CONTENT) - 1) is Reason.AUDIO_TOO_LARGE
    assert open_audio(uri, len(CONTENT)).stream.read() == CONTENT


@pytest.mark.parametrize("changed", [CONTENT + b"more", CONTENT[:1000], b"other" + CONTENT[5:], CONTENT[:-1] + b"x"])
@pytest.mark.parametrize("read_before", [0, 10])
def test_a_file_that_changes_while_it_is_read_is_told_or_goes_on_being_what_was_opened(
    place: Place, monkeypatch: pytest.MonkeyPatch, changed: bytes, read_before: int
) -> None:
    monkeypatch.setattr("volery.artifacts.gcs_audio.PART_BYTES", 100_000)
    file = open_audio(place.put("audio.wav", CONTENT))
    file.stream.read(read_before)
    place.put("audio.wav", changed)
    assert digest_or_reason(file) in (hashlib.sha256(CONTENT).hexdigest(), Reason.AUDIO_CHANGED)


def test_audio_decodes_to_the_same_samples(place: Place, tmp_path: Path) -> None:
    path = tmp_path / "noise.wav"
    samples = np.random.default_rng(0).integers(-9000, 9000, 60 * 16_000, dtype=np.int16)
    with wave.open(str(path), "wb") as written:
        written.setnchannels(1)
        written.setsampwidth(2)
        written.setframerate(16_000)
        written.writeframes(samples.tobytes())
    uri = place.put("noise.wav", path.read_bytes())
    file = open_audio(uri)
    assert probe_seconds(file.stream, uri) == 60.0
    decoded = decode(file.stream, uri, clip=Clip(50.0, 51.0), max_seconds=100)
    assert np.array_equal(decoded.samples, samples[50 * 16_000 : 51 * 16_000].astype(np.float32) / 32_768)
    assert file.sha256() == hashlib.sha256(path.read_bytes()).hexdigest()
