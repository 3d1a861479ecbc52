"""Parakeet through NeMo, with a tiny model whose weights are random: it must hear what NeMo hears."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from speech_audio import Samples, prepared, silence

from volery.speech.windows import SpeechWindow
from volery.units import SAMPLE_RATE, ConfigurationError, ResultClass

if TYPE_CHECKING:
    from volery.speech.parakeet import ParakeetEngine

pytestmark = pytest.mark.models


@pytest.fixture(scope="session")
def nemo_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import tiny_parakeet

    return tiny_parakeet.build(tmp_path_factory.mktemp("parakeet"))


@pytest.fixture(scope="session")
def parakeet(nemo_file: Path) -> ParakeetEngine:
    import torch

    from volery.speech.parakeet import BatchShape, load_parakeet

    return load_parakeet(str(nemo_file), torch.device("cpu"), BatchShape(4, 30), graphs=True)


@pytest.fixture(scope="session")
def windows(talk: Samples) -> list[SpeechWindow]:
    return [
        SpeechWindow(0, first, talk[round(first * SAMPLE_RATE) : round(last * SAMPLE_RATE)])
        for first, last in ((7.0, 14.0), (15.5, 17.25), (20.0, 29.9))
    ]


def test_the_words_are_those_of_nemo_itself(
    parakeet: ParakeetEngine, windows: list[SpeechWindow], nemo_file: Path
) -> None:
    from nemo.collections.asr.models import ASRModel

    nemo = ASRModel.restore_from(str(nemo_file), map_location="cpu")
    expected = nemo.transcribe([window.samples for window in windows], batch_size=1, verbose=False)
    heard = parakeet.transcribe(windows)
    assert [[word.text for word in each.words] for each in heard] == [each.text.split() for each in expected]
    assert sum(len(each.words) for each in heard) >= 6


def test_the_times_are_those_of_nemos_own_word_offsets(
    parakeet: ParakeetEngine, windows: list[SpeechWindow], nemo_file: Path
) -> None:
    from nemo.collections.asr.models import ASRModel

    nemo = ASRModel.restore_from(str(nemo_file), map_location="cpu")
    (expected,) = nemo.transcribe([windows[0].samples], batch_size=1, verbose=False, timestamps=True)
    (heard,) = parakeet.transcribe(windows[:1])
    starts = [offset["start_offset"] * 0.08 for offset in expected.timestamp["word"]]
    assert [word.start_s for word in heard.words] == pytest.approx(starts, abs=0.021)


def test_confidences_are_probabilities(parakeet: ParakeetEngine, windows: list[SpeechWindow]) -> None:
    confidences = [word.confidence for each in parakeet.transcribe(windows) for word in each.words]
    assert all(0 < confidence <= 1 for confidence in confidences)
    assert len(set(confidences)) > 3


def test_a_window_sounds_the_same_beside_any_others(parakeet: ParakeetEngine, windows: list[SpeechWindow]) -> None:
    together = parakeet.transcribe(windows)
    assert list(reversed(parakeet.transcribe(windows[::-1]))) == together
    assert [parakeet.transcribe([each])[0] for each in windows] == together


def test_a_batch_filled_up_to_its_shape_gives_each_window_its_own_words(
    parakeet: ParakeetEngine, windows: list[SpeechWindow]
) -> None:
    from volery.speech.parakeet import BatchShape

    alone = parakeet.transcribe(windows)
    filled = parakeet._batch(windows, BatchShape(4, 30))
    assert [[word.text for word in each.words] for each in filled] == [[w.text for w in each.words] for each in alone]


def test_on_a_cpu_graphs_do_not_apply_though_they_are_asked_for(parakeet: ParakeetEngine) -> None:
    assert parakeet.graphs == "inapplicable"
    assert not parakeet.computer.allow_cuda_graphs


def test_transcribing_leaves_the_decoder_in_place(parakeet: ParakeetEngine, windows: list[SpeechWindow]) -> None:
    before = parakeet.computer
    parakeet.transcribe(windows)
    assert parakeet.computer is before


def test_a_pipeline_with_parakeet_takes_units_all_the_way(nemo_file: Path, talk: Samples) -> None:
    from volery.settings import ProviderConfig, SpeechSettings
    from volery.speech.pipeline import load_pipeline

    settings = SpeechSettings(models="embedded", device="cpu", asr_engine="parakeet", asr_model=str(nemo_file))
    pipeline = load_pipeline(settings, ProviderConfig())
    pipeline.warm_up()
    spoken, silent = pipeline.process([prepared(talk[: 14 * SAMPLE_RATE], language="fr"), prepared(silence(2))])
    assert spoken.result_class is ResultClass.SPEECH
    assert silent.result_class is ResultClass.NO_SPEECH
    assert pipeline.models[-1].name == "tiny.nemo"
    assert pipeline.switch_states()["asr_cuda_graphs"] == "inapplicable"


def test_a_file_that_is_no_model_is_named(tmp_path: Path) -> None:
    import torch

    from volery.speech.parakeet import BatchShape, load_parakeet

    path = tmp_path / "broken.nemo"
    path.write_bytes(b"not an archive")
    with pytest.raises(ConfigurationError, match=r"broken\.nemo cannot be loaded"):
        load_parakeet(str(path), torch.device("cpu"), BatchShape(4, 30), graphs=True)
