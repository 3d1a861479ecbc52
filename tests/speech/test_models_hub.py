"""Models of the hub: at the revision that is pinned, from the cache where they are there, and what is said if not."""

from __future__ import annotations

from pathlib import Path

import fake_hub
import pytest
import structlog
from fake_hub import MAIN, FakeHub
from huggingface_hub import constants, errors

from volery.speech import hub as speech_hub
from volery.speech.choice import Pinned, diarization_model, parakeet_model, whisper_model
from volery.speech.models import Model
from volery.units import ConfigurationError

NAME, REVISION = "someone/model", "a" * 40


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeHub:
    hub = fake_hub.install(monkeypatch, tmp_path)
    hub.files = {
        "model.nemo": b"weights",
        "model.bin": b"weights",
        "config.json": b"{}",
        "config.yaml": b"pipeline: {}",
        "README.md": b"words",
    }
    return hub


def parakeet(revision: str | None = None, sha256: str | None = None) -> Model:
    return parakeet_model(NAME, Pinned(revision, sha256))


MODELS = pytest.mark.parametrize(
    "model",
    [
        lambda pinned: parakeet_model(NAME, pinned),
        lambda pinned: whisper_model(NAME, pinned, embedded=False),
        lambda pinned: diarization_model(NAME, pinned),
    ],
    ids=["parakeet", "whisper", "diarization"],
)


@MODELS
def test_a_model_is_asked_for_at_its_pinned_revision(hub: FakeHub, model: object) -> None:
    fetched = model(Pinned(REVISION)).fetch()  # type: ignore[operator]
    assert hub.asked == [(NAME, REVISION)]
    assert REVISION in fetched.path.parts


@MODELS
def test_a_model_in_the_cache_is_used_without_asking_the_hub(hub: FakeHub, model: object) -> None:
    first = model(Pinned(REVISION)).fetch()  # type: ignore[operator]
    assert model(Pinned(REVISION)).fetch() == model(Pinned(REVISION)).find() == first  # type: ignore[operator]
    assert len(hub.asked) == 1


def test_another_revision_than_the_one_in_the_cache_is_fetched(hub: FakeHub) -> None:
    parakeet().fetch()
    parakeet(REVISION).fetch()
    assert hub.asked == [(NAME, None), (NAME, REVISION)]


def test_without_a_revision_the_commit_that_was_fetched_stays(hub: FakeHub) -> None:
    assert MAIN in parakeet().fetch().path.parts
    assert MAIN in parakeet().find().path.parts


def test_whisper_fetches_and_hashes_only_what_it_opens(hub: FakeHub) -> None:
    weights = whisper_model(NAME, Pinned(), embedded=False).fetch()
    assert sorted(one.name for one in weights.path.iterdir()) == ["config.json", "model.bin"]
    before = weights.digest
    (weights.path / "README.md").write_text("somebody else fetched this")
    assert weights.digest == before


def test_a_model_that_is_not_in_the_cache_says_how_to_get_it(hub: FakeHub) -> None:
    with pytest.raises(ConfigurationError, match=rf"someone/model at the revision {REVISION} .*`volery models pull`"):
        parakeet(REVISION).find()


def test_a_hub_model_without_a_pinned_digest_is_warned_about_with_the_digest_to_pin(hub: FakeHub) -> None:
    with structlog.testing.capture_logs() as logs:
        weights = parakeet().fetch()
    [warning] = logs
    assert (warning["log_level"], warning["model"]) == ("warning", NAME)
    assert warning["pin"] == "BATCH_PIPELINE_ASR_MODEL_SHA256"
    assert warning["sha256"] == weights.digest


def test_a_hub_model_with_a_pinned_digest_is_not_warned_about(hub: FakeHub) -> None:
    with structlog.testing.capture_logs() as logs:
        parakeet(sha256="0" * 64).fetch()
    assert logs == []


@pytest.mark.parametrize(
    ("kind", "status", "said"),
    [
        (errors.GatedRepoError, 403, r"does not give someone/model to everybody: accept its conditions.*HF_TOKEN"),
        (errors.RepositoryNotFoundError, 404, r"no model someone/model: correct BATCH_PIPELINE_ASR_MODEL.*HF_TOKEN"),
        (errors.RevisionNotFoundError, 404, rf"no revision {REVISION}.*correct BATCH_PIPELINE_ASR_MODEL_REVISION"),
        (errors.RemoteEntryNotFoundError, 404, r"has no model\.nemo in it: correct BATCH_PIPELINE_ASR_MODEL"),
        (errors.HfHubHTTPError, 500, r"\(HfHubHTTPError: Client error\): check the network.*--models embedded"),
    ],
)
def test_each_failure_of_a_download_says_what_to_do(
    hub: FakeHub, kind: type[errors.HfHubHTTPError], status: int, said: str
) -> None:
    hub.fails(kind, status)
    with pytest.raises(ConfigurationError, match=said):
        parakeet(REVISION).fetch()


def test_an_unreachable_hub_is_reported_with_the_embedded_alternative(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(ConfigurationError, match=r"someone/model.*cannot be reached.*--models embedded"):
        parakeet().fetch()


def test_an_offline_hub_is_reported_without_asking_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ConfigurationError, match=r"HF_HUB_OFFLINE is set.*--models embedded"):
        parakeet().fetch()


def test_a_model_in_the_cache_is_loaded_though_the_hub_is_unreachable(
    hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    parakeet().fetch()
    monkeypatch.setattr(speech_hub, "hub_problem", lambda: pytest.fail("the hub must not be asked"))
    assert parakeet().fetch().path.read_bytes() == b"weights"
