"""What the referee hears, with the embedded weights: through CTranslate2, and the same weights through torch."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pytest
from speech_audio import decoded, silence
from torch_weights import embedded_for_torch, nonsense_for_torch

from volery.referee.cases import Heard, Listener, RefereeError, RefereeReason
from volery.referee.devices import Choice, Why
from volery.referee.disagreement import normalised
from volery.referee.whisper import WINDOW_S, WindowedListener, load_listeners, speech_windows
from volery.settings import Settings, SpeechSettings
from volery.speech.models import WHISPER
from volery.speech.vad import SileroVad
from volery.units import SAMPLE_RATE, ConfigurationError

if TYPE_CHECKING:
    from volery.referee.torch_whisper import TorchWhisper

Samples = npt.NDArray[np.float32]

pytestmark = pytest.mark.models

SAID = "3 1 4 1 5 9"


def words(heard: Heard) -> str:
    return normalised(heard.text, "en")


@pytest.fixture(scope="module")
def cpu() -> Listener:
    return load_listeners(Settings(speech=SpeechSettings(models="embedded")), in_worker=True).first


@pytest.fixture(scope="module")
def torch_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return embedded_for_torch(WHISPER.find().path, tmp_path_factory.mktemp("torch"))


@pytest.fixture(scope="module")
def torch_engine(torch_folder: Path) -> TorchWhisper:
    from volery.referee.torch_whisper import TorchWhisper

    return TorchWhisper(torch_folder, "cpu")


@pytest.fixture(scope="module")
def spoken(shared_data: Path) -> Samples:
    return decoded(shared_data / "audio-cases" / "speech.opus")


@pytest.fixture(params=["cpu", "torch"])
def listener(request: pytest.FixtureRequest) -> Listener:
    if request.param == "cpu":
        return request.getfixturevalue("cpu")
    return WindowedListener(request.getfixturevalue("torch_engine"), SileroVad())


def test_words_are_heard_between_long_pauses(listener: Listener, spoken: Samples) -> None:
    heard = listener.hear(np.concatenate([silence(20), spoken, silence(30), spoken]), None)
    assert (words(heard), heard.language) == (f"{SAID} {SAID}", "en")


def test_nothing_is_heard_where_nobody_speaks(listener: Listener) -> None:
    noise = np.random.default_rng(1).normal(size=45 * SAMPLE_RATE).astype(np.float32) * 0.1
    assert [listener.hear(samples, None).text for samples in (noise, silence(2), silence(0))] == ["", "", ""]


def test_a_language_that_the_model_does_not_know_is_refused(listener: Listener, spoken: Samples) -> None:
    with pytest.raises(RefereeError, match="cannot transcribe the language 'de'") as caught:
        listener.hear(spoken, "de")
    assert caught.value.reason is RefereeReason.LANGUAGE


def test_long_speech_is_cut_into_windows_that_whisper_can_hear_whole(conversation: Path) -> None:
    talk = decoded(conversation)
    windows = speech_windows(np.concatenate([talk] * 5), SileroVad())
    assert max(len(window) for window in windows) <= WINDOW_S * SAMPLE_RATE
    assert sum(len(window) for window in windows) > 0.7 * 5 * len(talk)


def test_a_multilingual_model_tells_the_language_itself_or_takes_the_one_that_is_known(
    tmp_path: Path, spoken: Samples, monkeypatch: pytest.MonkeyPatch
) -> None:
    from volery.referee import torch_whisper
    from volery.referee.torch_whisper import TorchWhisper

    monkeypatch.setattr(torch_whisper, "BATCH_WINDOWS", 1)
    engine = TorchWhisper(nonsense_for_torch(WHISPER.find().path, tmp_path), "cpu")
    windows = [spoken[:SAMPLE_RATE], spoken]
    assert engine.languages == {"en", "de"}
    assert {one.language for one in engine.hear(windows, None)} < {"en", "de"}
    for language in ("en", "de"):
        assert [one.language for one in engine.hear(windows, language)] == [language, language]


def test_the_language_of_a_unit_is_what_most_of_its_speech_is_in(
    monkeypatch: pytest.MonkeyPatch, spoken: Samples
) -> None:
    class Polyglot:
        languages = frozenset(("en", "de"))

        def hear(self, windows: Sequence[Samples], language: str | None) -> list[Heard]:
            return [Heard("one", "en"), Heard("", "cy"), Heard("zwei", "de")]

    parts = [spoken[:100], spoken[:900], spoken[:500]]
    monkeypatch.setattr("volery.referee.whisper.speech_windows", lambda *_: parts)
    assert WindowedListener(Polyglot(), SileroVad()).hear(spoken, None) == Heard("one zwei", "de")


def test_the_referee_on_a_cpu_brings_no_library_that_it_does_not_use() -> None:
    code = "import sys, volery.referee.whisper\nprint(*{'nemo', 'pyannote', 'transformers'} & sys.modules.keys())"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.split() == []


class OneWithRoom:
    def count(self) -> int:
        return 1

    def free_bytes(self, index: int) -> int:
        return 80 << 30


def test_embedded_weights_stay_on_the_cpu_and_there_is_no_second_model_to_ask() -> None:
    settings = Settings(speech=SpeechSettings(models="embedded"))
    found = load_listeners(settings, in_worker=False, devices=OneWithRoom())
    assert (found.choice, found.load_second) == (Choice("cpu", Why.MODEL), None)


def test_embedded_weights_are_refused_where_an_accelerator_is_insisted_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BATCH_PIPELINE_REFEREE_DEVICE", "cuda")
    settings = Settings(speech=SpeechSettings(models="embedded"))
    with pytest.raises(ConfigurationError, match="runs on a CPU only"):
        load_listeners(settings, in_worker=False, devices=OneWithRoom())


def test_a_model_in_the_other_devices_format_is_refused(monkeypatch: pytest.MonkeyPatch, torch_folder: Path) -> None:
    monkeypatch.setenv("BATCH_PIPELINE_REFEREE_MODEL", str(torch_folder))
    with pytest.raises(ConfigurationError, match=r"REFEREE_MODEL: .* holds no model\.bin"):
        load_listeners(Settings(speech=SpeechSettings(models="embedded")), in_worker=True)


def test_a_model_that_is_not_the_pinned_one_is_not_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BATCH_PIPELINE_REFEREE_MODEL", str(WHISPER.find().path))
    monkeypatch.setenv("BATCH_PIPELINE_REFEREE_MODEL_SHA256", "0" * 64)
    with pytest.raises(ConfigurationError, match="BATCH_PIPELINE_REFEREE_MODEL_SHA256 says 0000"):
        load_listeners(Settings(speech=SpeechSettings(models="embedded")), in_worker=True)


def test_a_second_model_is_loaded_only_when_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, spoken: Samples
) -> None:
    second = tmp_path / "second"
    second.mkdir()
    for file in WHISPER.find().path.iterdir():
        (second / file.name).symlink_to(file)
    monkeypatch.setenv("BATCH_PIPELINE_REFEREE_ESCALATION_MODEL", str(second))
    found = load_listeners(Settings(speech=SpeechSettings(models="embedded")), in_worker=True)
    assert found.load_second is not None
    assert words(found.load_second().hear(spoken, "en")) == SAID
