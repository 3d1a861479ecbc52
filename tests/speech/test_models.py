"""Which models the settings ask for, what they are pinned to, and what a digest covers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from volery.settings import ProviderConfig, SpeechSettings
from volery.speech import models
from volery.speech.choice import Pinned, checked_pipeline, chosen_models, diarization_model, elsewhere
from volery.speech.hub import HUB_LICENCES
from volery.speech.models import CARRIED, EMBEDDING, POCKET_MODEL, SEGMENTATION, SILERO, WHISPER, Carried, Weights
from volery.units import ConfigurationError

ROOT = Path(__file__).resolve().parents[2]
REVISION, DIGEST = "a" * 40, "b" * 64
INSIDE = "pipeline: {params: {segmentation: $model/segmentation, embedding: $model/embedding, plda: $model/plda}}"


def chosen(**settings: Any) -> dict[str, models.Model]:
    return dict(chosen_models(SpeechSettings(**settings), ProviderConfig()))


def test_embedded_models_all_come_from_packages() -> None:
    assert chosen(models="embedded") == {
        "vad": SEGMENTATION,
        "segmentation": SEGMENTATION,
        "embedding": EMBEDDING,
        "asr": WHISPER,
    }


def test_by_default_the_hubs_parakeet_transcribes() -> None:
    asr = chosen()["asr"]
    assert (asr.kind, asr.name, asr.licence) == ("hub", "nvidia/parakeet-tdt-0.6b-v3", "CC BY 4.0")


def test_silero_and_the_pocket_model_are_chosen_by_name() -> None:
    asked = chosen(vad_engine="silero", asr_model="pocket")
    assert (asked["vad"], asked["asr"]) == (SILERO, POCKET_MODEL)
    assert POCKET_MODEL.kind == "pocket"


@pytest.mark.parametrize(("in_use", "other"), [("pyannote", SILERO), ("silero", SEGMENTATION)])
def test_the_vad_that_is_not_in_use_is_chosen_only_where_something_asks_for_it(in_use: Any, other: Carried) -> None:
    plain, shadowed = SpeechSettings(vad_engine=in_use), SpeechSettings(vad_engine=in_use, vad_shadow_sample_rate=0.01)
    recovering = ProviderConfig(vad_recovery_enabled=True)
    assert "second_vad" not in dict(chosen_models(plain, ProviderConfig()))
    assert dict(chosen_models(shadowed, ProviderConfig()))["second_vad"] is other
    assert dict(chosen_models(plain, recovering))["second_vad"] is other


def test_a_pipeline_is_both_the_segmentation_and_the_embedding() -> None:
    asked = chosen(diarization_model="someone/pipeline", diarization_model_revision=REVISION)
    assert asked["segmentation"] == asked["embedding"]
    assert (asked["embedding"].name, asked["embedding"].revision) == ("someone/pipeline", REVISION)
    assert asked["vad"] == SEGMENTATION


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"asr_model": "pocket", "asr_model_sha256": DIGEST}, "ASR_MODEL_SHA256 is set, but pocket"),
        ({"models": "embedded", "asr_model_revision": REVISION}, "ASR_MODEL_REVISION is set, but whisper"),
        ({"asr_model": "/", "asr_model_revision": REVISION}, "ASR_MODEL_REVISION is set, but /"),
        ({"diarization_model_sha256": DIGEST}, "DIARIZATION_MODEL_SHA256 is set, but what diarizes"),
    ],
)
def test_a_pin_that_cannot_apply_is_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"BATCH_PIPELINE_{said}.*unset it"):
        chosen(**settings)


@pytest.mark.parametrize("value", ["main", "A" * 40, "a" * 39])
def test_a_revision_is_a_commit_and_no_branch_that_moves(value: str) -> None:
    with pytest.raises(ValidationError):
        SpeechSettings(asr_model_revision=value)


def test_a_digest_is_64_hexadecimal_digits() -> None:
    with pytest.raises(ValidationError):
        SpeechSettings(asr_model_sha256="b" * 63)


@pytest.mark.parametrize("model", CARRIED, ids=lambda model: model.name)
def test_every_model_of_the_installed_packages_is_the_pinned_one(model: Carried) -> None:
    try:
        weights = model.find()
    except ConfigurationError as error:
        pytest.skip(str(error))
    assert weights.checked().digest == model.sha256


def test_every_model_is_in_the_notice_with_its_licence() -> None:
    notice = (ROOT / "NOTICE").read_text(encoding="utf-8")
    lines = [line for line in notice.splitlines() if line.startswith("- ")]
    known = HUB_LICENCES | {one.name: one.licence for one in CARRIED}
    words = {"3D-Speaker/campplus_sv_zh_en_16k-common_advanced": "CAM++", "whisper-tiny.en": "Whisper tiny"}
    for name, licence in known.items():
        called = words.get(name, name.removeprefix("pyannote/").removesuffix("-vad"))
        assert [line for line in lines if called.lower() in line.lower() and licence in line], name


def folder_of(place: Path, **files: str) -> Path:
    for name, content in files.items():
        path = place / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return place


def test_the_digest_of_a_folder_is_that_of_what_sha256sum_lists(tmp_path: Path) -> None:
    folder_of(tmp_path, config_yaml="a", part__b_bin="b", part__a_bin="c", _hidden="d")
    command = (
        r"find -L . -type f -not -path '*/.*' -printf '%P\n' | LC_ALL=C sort | xargs -d '\n' sha256sum | sha256sum"
    )
    listed = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert models.digest_of(tmp_path) == listed.split()[0]


@pytest.mark.parametrize("change", ["content", "name", "more"])
def test_the_digest_of_a_folder_changes_with_any_of_its_files(tmp_path: Path, change: str) -> None:
    folder_of(tmp_path, config_yaml="a", part__b_bin="b")
    before = models.digest_of(tmp_path)
    match change:
        case "content":
            (tmp_path / "part" / "b.bin").write_text("c")
        case "name":
            (tmp_path / "part" / "b.bin").rename(tmp_path / "part" / "c.bin")
        case "more":
            (tmp_path / "more").write_text("")
    assert models.digest_of(tmp_path) != before


def test_what_a_link_leads_to_is_hashed(tmp_path: Path) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "folder"
    folder_of(outside, a_bin="a")
    folder.mkdir()
    (folder / "part").symlink_to(outside)
    before = models.digest_of(folder)
    (outside / "a.bin").write_text("b")
    assert models.digest_of(folder) != before


def test_a_pipeline_with_all_of_its_models_inside_takes_nothing_from_elsewhere(tmp_path: Path) -> None:
    assert elsewhere(folder_of(tmp_path, config_yaml=INSIDE)) == ()


OUTSIDE = ("pyannote/segmentation-3.0", "$model/a@v2", "$model/../a", "$model//a", "$model/.a", "{checkpoint: a/b}")


@pytest.mark.parametrize("part", [*(f"segmentation: {one}, " for one in OUTSIDE), ""])
def test_a_model_that_no_digest_covers_is_refused_where_one_is_pinned(tmp_path: Path, part: str) -> None:
    folder_of(tmp_path, config_yaml=INSIDE.replace("segmentation: $model/segmentation, ", part))
    pinned = diarization_model(str(tmp_path), Pinned(sha256=models.digest_of(tmp_path)))
    assert pinned is not None
    with pytest.raises(ConfigurationError, match=r"takes models from outside.*segmentation: "):
        checked_pipeline(pinned.find())
    unpinned = Weights("any", "path", tmp_path)
    assert checked_pipeline(unpinned) == unpinned


def test_choosing_and_hashing_load_no_model_library() -> None:
    code = (
        "import sys; from volery.settings import ProviderConfig, SpeechSettings\n"
        "from volery.speech.choice import chosen_models\n"
        "for _, model in chosen_models(SpeechSettings(models='embedded'), ProviderConfig()): model.kind, model.pin\n"
        "print(sorted({'torch', 'nemo', 'pyannote', 'numpy', 'huggingface_hub'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"
