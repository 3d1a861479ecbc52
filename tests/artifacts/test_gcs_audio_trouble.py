"""Audio in Google Cloud Storage when something is wrong: with the object, with rights, with the network."""

from __future__ import annotations

import hashlib
import resource
import sys
import tempfile
import wave
from pathlib import Path

import pytest

from artifacts.gcs_service import (
    Fault,
    Service,
    breaks_off,
    hangs,
    refuses,
    resets,
    sends,
    trickles,
)
from volery.artifacts import SourceFile, open_source
from volery.audio import decode
from volery.settings import ArtifactSettings
from volery.units import ArtifactsUnavailable, Reason, UnitError, UnitFailed, UnitRejected

CONTENT = bytes(range(256)) * 1000
PART = 100_000
MANY = 1 << 30


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("volery.artifacts.gcs_audio.PART_BYTES", PART)


@pytest.fixture
def uri(service: Service) -> str:
    return service.put("audio.wav", CONTENT)


def open_audio(uri: str, deadline_s: float = 60.0) -> SourceFile:
    return open_source(ArtifactSettings(gcs_deadline_seconds=deadline_s)).open(uri, MANY)


def trouble(uri: str, deadline_s: float = 60.0) -> UnitError:
    """What opening, reading and digesting ends with."""
    with pytest.raises(UnitError) as caught:
        open_audio(uri, deadline_s).sha256()
    return caught.value


@pytest.mark.parametrize(
    "uri",
    [
        "gs:bucket/audio.wav",
        "gs:/bucket/audio.wav",
        "gs://",
        "gs:///audio.wav",
        "gs://Bucket/audio.wav",
        "gs://b/audio.wav",
        "gs://user:hunter2@bucket/audio.wav",
        "gs://bucket/a\nb.wav",
        "gs://bucket/.",
        "gs://bucket/..",
        "gs://bucket/\ud800.wav",
        "gs://bucket/" + "n" * 1025,
    ],
)
def test_a_uri_that_no_object_can_have_is_told_without_asking(service: Service, uri: str) -> None:
    error = trouble(uri)
    assert (type(error), error.reason) == (UnitRejected, Reason.AUDIO_BAD_URI)
    assert "hunter2" not in str(error)
    assert service.asked == []


@pytest.mark.parametrize("name", ["take#2.wav", "why?.wav", "50%25.wav", "a//b.wav", "n" * 1024])
def test_a_name_is_taken_as_it_stands(service: Service, name: str) -> None:
    assert open_audio(service.put(name, name.encode())).stream.read() == name.encode()


@pytest.mark.parametrize("uri", ["gs://bucket/nowhere.wav", "gs://no-such-bucket/audio.wav"])
def test_a_missing_object_or_bucket_is_missing_for_good(service: Service, uri: str) -> None:
    error = trouble(uri)
    assert (type(error), error.reason) == (UnitRejected, Reason.AUDIO_MISSING)


@pytest.mark.parametrize("before", [[], [None], [None, None]])
def test_an_object_that_may_not_be_read_is_forbidden_for_good_and_says_which_role_to_grant(
    service: Service, uri: str, before: list[None]
) -> None:
    service.next(*before, refuses(403, "forbidden", "worker@project does not have storage.objects.get access"))
    error = trouble(uri)
    assert (type(error), error.reason) == (UnitRejected, Reason.AUDIO_FORBIDDEN)
    assert "roles/storage.objectViewer" in error.message
    if not before:
        assert "worker@project does not have storage.objects.get access" in error.message


@pytest.mark.parametrize("fault", [refuses(403, "rateLimitExceeded"), refuses(403, "accountDisabled"), refuses(400)])
def test_a_refusal_that_is_not_about_the_object_fails_the_attempt_alone(
    service: Service, uri: str, fault: Fault
) -> None:
    service.always(fault)
    error = trouble(uri)
    assert (type(error), error.reason) == (UnitFailed, Reason.AUDIO_UNAVAILABLE)


def test_credentials_that_are_refused_are_no_units_fault(service: Service, uri: str) -> None:
    service.always(refuses(401))
    error = trouble(uri)
    assert (type(error), error.reason) == (ArtifactsUnavailable, Reason.AUDIO_UNAVAILABLE)


def test_credentials_that_are_refused_in_the_middle_are_no_units_fault(service: Service, uri: str) -> None:
    audio = open_audio(uri)
    service.always(refuses(401))
    with pytest.raises(ArtifactsUnavailable, match="credentials"):
        audio.stream.read(1)


def test_a_missing_package_is_no_units_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "google.cloud", None)
    with pytest.raises(ArtifactsUnavailable, match=r"pip install 'volery\[gcs\]'"):
        open_audio("gs://bucket/audio.wav")


@pytest.mark.parametrize("fault", [refuses(503), refuses(429), refuses(500), resets])
def test_what_passes_is_retried(service: Service, uri: str, fault: Fault) -> None:
    service.next(fault, None, fault, None, fault)
    assert open_audio(uri).sha256() == hashlib.sha256(CONTENT).hexdigest()


def test_an_answer_that_breaks_off_is_taken_up_where_it_did(service: Service, uri: str) -> None:
    service.next(None, breaks_off)
    assert open_audio(uri).sha256() == hashlib.sha256(CONTENT).hexdigest()


@pytest.mark.parametrize("fault", [refuses(503), resets, hangs, trickles])
@pytest.mark.parametrize("before", [[], [None], [None, None]])
def test_what_does_not_pass_in_time_fails_the_attempt_alone(
    service: Service, uri: str, fault: Fault, before: list[None]
) -> None:
    service.next(*before)
    service.always(fault)
    error = trouble(uri, deadline_s=0.5)
    assert (type(error), error.reason) == (UnitFailed, Reason.AUDIO_UNAVAILABLE)


@pytest.mark.parametrize("sent", [b"x" * PART, b"", CONTENT[: PART - 1], CONTENT[1 : PART + 1]])
def test_bytes_that_do_not_match_the_checksum_are_not_vouched_for(service: Service, uri: str, sent: bytes) -> None:
    service.next(None, sends(sent))
    error = trouble(uri)
    assert (type(error), error.reason) == (UnitFailed, Reason.AUDIO_UNAVAILABLE)
    assert "damaged" in error.message


def test_a_service_that_sends_more_than_was_asked_for_is_not_listened_to(service: Service, uri: str) -> None:
    service.next(None, sends(CONTENT * 100))
    error = trouble(uri)
    assert (type(error), error.reason) == (UnitFailed, Reason.AUDIO_UNAVAILABLE)
    assert "more was sent" in error.message


def test_an_object_over_the_limit_is_looked_at_and_not_fetched(service: Service, uri: str) -> None:
    with pytest.raises(UnitRejected) as caught:
        open_source().open(uri, len(CONTENT) - 1)
    assert caught.value.reason is Reason.AUDIO_TOO_LARGE
    assert service.asked == ["GET storage"]


def test_parts_are_fetched_when_they_are_read_and_only_once(service: Service, uri: str) -> None:
    file = open_audio(uri)
    file.stream.read(44)
    file.stream.seek(-10, 2)
    file.stream.read(10)
    file.stream.seek(0)
    file.stream.read(44)
    assert service.asked == ["GET storage", "GET media", "GET media"]
    file.sha256()
    assert service.asked[3:] == ["GET media"]


def test_an_object_that_is_stored_compressed_is_told(service: Service) -> None:
    error = trouble(service.put("audio.wav", CONTENT, encoding="gzip"))
    assert (type(error), error.reason) == (UnitRejected, Reason.AUDIO_UNDECODABLE)
    assert "content encoding 'gzip'" in error.message


@pytest.mark.parametrize("changed", [CONTENT, CONTENT + b"more", CONTENT[:1000], b"other" + CONTENT[5:]])
def test_an_object_that_is_replaced_while_it_is_read_is_told(service: Service, uri: str, changed: bytes) -> None:
    file = open_audio(uri)
    file.stream.read(PART)
    service.put("audio.wav", changed)
    with pytest.raises(UnitFailed) as caught:
        file.sha256()
    assert caught.value.reason is Reason.AUDIO_CHANGED


def test_an_object_that_is_removed_while_it_is_read_is_told(service: Service, uri: str) -> None:
    file = open_audio(uri)
    del service.objects["audio.wav"]
    with pytest.raises(UnitFailed) as caught:
        file.stream.read()
    assert caught.value.reason is Reason.AUDIO_CHANGED


def test_an_object_that_was_read_already_goes_on_being_what_it_was(service: Service, uri: str) -> None:
    file = open_audio(uri)
    file.stream.read()
    service.put("audio.wav", b"another")
    assert file.sha256() == hashlib.sha256(CONTENT).hexdigest()


def test_a_decoder_is_told_what_went_wrong_below_it(service: Service, tmp_path: Path) -> None:
    path = tmp_path / "silence.wav"
    with wave.open(str(path), "wb") as written:
        written.setparams((1, 2, 16_000, 0, "NONE", ""))
        written.writeframes(bytes(10 * PART))
    uri = service.put("silence.wav", path.read_bytes())
    file = open_audio(uri)
    file.stream.read(1)
    service.put("silence.wav", b"another")
    with pytest.raises(UnitFailed) as caught:
        decode(file.stream, uri, clip=None, max_seconds=1000)
    assert caught.value.reason is Reason.AUDIO_CHANGED


def test_a_full_temporary_folder_is_told(service: Service, uri: str) -> None:
    file = open_audio(uri)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (PART // 2, hard))
    try:
        with pytest.raises(UnitFailed) as caught:
            file.stream.read()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert caught.value.reason is Reason.AUDIO_UNAVAILABLE
    assert tempfile.gettempdir() in caught.value.message
