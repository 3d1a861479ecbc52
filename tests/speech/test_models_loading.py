"""A loader refuses a model that is not the pinned one, and does not open it: opening one can run code."""

from __future__ import annotations

import hashlib
import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest

from volery.speech import models
from volery.speech.choice import Pinned, whisper_model
from volery.speech.models import EMBEDDING, SEGMENTATION, SILERO, WHISPER, Carried, Pin, Weights
from volery.units import ConfigurationError

pytestmark = pytest.mark.models


class WritesWhenOpened:
    """Unpickling this writes a file."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> Any:
        return Path.write_text, (self.marker, "code ran")


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    return tmp_path / "marker"


@pytest.fixture
def harmful(tmp_path: Path, marker: Path) -> Path:
    path = tmp_path / "pytorch_model.bin"
    path.write_bytes(pickle.dumps(WritesWhenOpened(marker), protocol=2))
    return path


def tampered(model: Carried, folder: Path) -> Path:
    """A copy of a package's folder for a model, in which one byte is another."""
    path = model.find().path
    copy = folder / model.path
    copy.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        shutil.copytree(path, copy)
        copy = copy / "tokenizer.json"
    else:
        shutil.copy(path, copy)
    content = bytearray(copy.read_bytes())
    content[len(content) // 2] ^= 1
    copy.write_bytes(content)
    return folder / model.path


def must_not_be_called(*_: Any, **__: Any) -> None:
    pytest.fail("the model must not be opened")


def segmenter(weights: Weights) -> Any:
    import torch

    from volery.speech.segmentation import Segmenter

    return Segmenter(weights, 4, torch.device("cpu"))


def test_a_checkpoint_that_was_changed_is_named_with_both_digests_and_its_code_does_not_run(
    harmful: Path, marker: Path
) -> None:
    found, expected = hashlib.sha256(harmful.read_bytes()).hexdigest(), SEGMENTATION.sha256
    weights = Weights("any", "path", harmful, Pin(expected, "the test", "do something"))
    with pytest.raises(ConfigurationError, match=f"{harmful} has the SHA-256 {found}, but the test says {expected}"):
        segmenter(weights)
    assert not marker.exists()


def test_the_code_in_that_checkpoint_would_have_run(harmful: Path, marker: Path) -> None:
    with pytest.raises(RuntimeError, match="magic number"):  # after it was unpickled
        segmenter(Weights("any", "path", harmful))
    assert marker.exists()


def test_the_segmentation_of_a_package_with_one_byte_changed_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from volery.speech import segmentation

    path = tampered(SEGMENTATION, tmp_path)
    monkeypatch.setattr(models, "package_folder", lambda *_: tmp_path)
    monkeypatch.setattr(segmentation.Model, "from_pretrained", must_not_be_called)
    with pytest.raises(ConfigurationError, match=refusal(path, SEGMENTATION)):
        segmenter(SEGMENTATION.find())


def test_the_embedding_of_a_package_with_one_byte_changed_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    from volery.speech.diarization import load_diarizer

    loaded = segmenter(SEGMENTATION.find())
    path = tampered(EMBEDDING, tmp_path)
    monkeypatch.setattr(models, "package_folder", lambda *_: tmp_path)
    monkeypatch.setattr(torch, "load", must_not_be_called)
    with pytest.raises(ConfigurationError, match=refusal(path, EMBEDDING)):
        load_diarizer(None, loaded, 4, torch.device("cpu"))


def test_a_silero_with_one_byte_changed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from volery.speech.vad import SileroVad

    path = tampered(SILERO, tmp_path)
    monkeypatch.setattr(models, "package_folder", lambda *_: tmp_path)
    monkeypatch.setattr(torch.jit, "load", must_not_be_called)
    with pytest.raises(ConfigurationError, match=refusal(path, SILERO)):
        SileroVad()


def test_a_whisper_whose_tokenizer_has_one_byte_changed_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from volery.speech import whisper

    path = tampered(WHISPER, tmp_path)
    monkeypatch.setattr(whisper, "WhisperModel", must_not_be_called)
    with pytest.raises(ConfigurationError, match=refusal(path, WHISPER, by="BATCH_PIPELINE_ASR_MODEL_SHA256")):
        whisper.load_whisper(str(path), embedded=False, cpu_threads=1, pinned=Pinned(sha256=WHISPER.sha256))


def test_a_nemo_file_that_is_not_the_pinned_one_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from volery.speech import parakeet
    from volery.speech.decoding_mode import DecodingMode
    from volery.speech.precision import Precision

    path = tampered(models.POCKET_MODEL, tmp_path)
    monkeypatch.setattr(parakeet.ASRModel, "restore_from", must_not_be_called)
    options = parakeet.ParakeetOptions(DecodingMode(graphs=False), Precision(torch.float32, tf32=False))
    pinned = Pinned(sha256=models.POCKET_MODEL.sha256)
    with pytest.raises(
        ConfigurationError, match=refusal(path, models.POCKET_MODEL, by="BATCH_PIPELINE_ASR_MODEL_SHA256")
    ):
        parakeet.load_parakeet(str(path), torch.device("cpu"), options, pinned)


def test_a_pipeline_in_a_folder_that_is_not_the_pinned_one_is_refused_and_its_code_does_not_run(
    tmp_path: Path, harmful: Path, marker: Path
) -> None:
    import torch

    from volery.speech.diarization import load_diarizer

    folder = tmp_path / "pipeline"
    (folder / "segmentation").mkdir(parents=True)
    (folder / "config.yaml").write_text("pipeline: {name: x, params: {segmentation: $model/segmentation}}")
    shutil.copy(harmful, folder / "segmentation" / "pytorch_model.bin")
    found = models.digest_of(folder)
    with pytest.raises(ConfigurationError, match=rf"{found}, but BATCH_PIPELINE_DIARIZATION_MODEL_SHA256 says 0{{64}}"):
        load_diarizer(str(folder), None, 4, torch.device("cpu"), Pinned(sha256="0" * 64))
    assert not marker.exists()


def test_what_the_settings_pin_reaches_the_loaders(tmp_path: Path) -> None:
    from volery.settings import ProviderConfig, SpeechSettings
    from volery.speech.pipeline import load_pipeline

    path = tampered(WHISPER, tmp_path)
    asked = SpeechSettings(device="cpu", asr_engine="whisper", asr_model=str(path), asr_model_sha256=WHISPER.sha256)
    with pytest.raises(ConfigurationError, match=refusal(path, WHISPER, by="BATCH_PIPELINE_ASR_MODEL_SHA256")):
        load_pipeline(asked, ProviderConfig())
    (tmp_path / "config.yaml").write_text("")
    asked = SpeechSettings(
        device="cpu", models="embedded", diarization_model=str(tmp_path), diarization_model_sha256="0" * 64
    )
    with pytest.raises(ConfigurationError, match=r"BATCH_PIPELINE_DIARIZATION_MODEL_SHA256 says 0{64}"):
        load_pipeline(asked, ProviderConfig())


def test_a_whisper_may_be_named_by_its_size() -> None:
    assert whisper_model("turbo", Pinned(), embedded=False).name == "mobiuslabsgmbh/faster-whisper-large-v3-turbo"
    with pytest.raises(ConfigurationError, match=r"BATCH_PIPELINE_ASR_MODEL=turba is no Whisper model; sizes are tiny"):
        whisper_model("turba", Pinned(), embedded=False)


def refusal(path: Path, model: Carried, by: str = "Volery's own list") -> str:
    """What is said of a path that should have been a model."""
    found = models.digest_of(path, model.files)
    assert found != model.sha256
    return f"{path} has the SHA-256 {found}, but {by} says {model.sha256}"
