"""Parakeet through NeMo, with a tiny model whose weights are random: it must hear what NeMo hears."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from speech_audio import Samples, prepared, silence

from volery.audio import decode
from volery.settings import ProviderConfig, SpeechSettings
from volery.speech.asr import Hypothesis
from volery.speech.decoding_mode import DecodingMode, computer_of
from volery.speech.parakeet import BatchShape, ParakeetEngine, ParakeetOptions, load_parakeet
from volery.speech.pipeline import load_pipeline
from volery.speech.precision import Precision
from volery.speech.windows import SpeechWindow
from volery.units import SAMPLE_RATE, ConfigurationError, QuarantineError, Reason, ResultClass, UnitFailed

pytestmark = pytest.mark.models

EAGER, FLOAT32 = DecodingMode(graphs=False), Precision(torch.float32, tf32=False)
ON_CPU = ParakeetOptions(EAGER, FLOAT32)


def window(samples: Samples) -> SpeechWindow:
    return SpeechWindow(0, 0.0, samples)


def texts(hypotheses: Sequence[Hypothesis]) -> list[list[str]]:
    return [[word.text for word in each.words] for each in hypotheses]


def times(hypotheses: Sequence[Hypothesis]) -> list[list[tuple[float, float]]]:
    return [[(word.start_s, word.end_s) for word in each.words] for each in hypotheses]


def pipeline_of(model: Path | str, **switches: bool) -> Any:
    """A pipeline with Parakeet, whose `asr` is the live engine."""
    settings = SpeechSettings(models="embedded", device="cpu", asr_engine="parakeet", asr_model=str(model))
    return load_pipeline(settings, ProviderConfig(**switches))


@pytest.fixture(scope="session")
def parakeet(nemo_file: Path) -> ParakeetEngine:
    return load_parakeet(str(nemo_file), torch.device("cpu"), ON_CPU)


@pytest.fixture(scope="session")
def filling(nemo_file: Path) -> Callable[[int, float], ParakeetEngine]:
    """An engine that fills its batches up to a shape, as on an accelerator."""

    def engine(rows: int, seconds: float) -> ParakeetEngine:
        options = ParakeetOptions(EAGER, FLOAT32, BatchShape(rows, seconds))
        return load_parakeet(str(nemo_file), torch.device("cpu"), options)

    return engine


@pytest.fixture
def quiet() -> Any:
    """Makes a model sure that nothing is said, for a while."""

    @contextmanager
    def quietened(engine: ParakeetEngine) -> Iterator[None]:
        bias = engine.model.joint.joint_net[-1].bias.data
        blank, before = len(engine.model.tokenizer.vocab), bias.clone()
        bias[blank] += 1000.0
        yield
        bias.copy_(before)

    return quietened


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


@pytest.mark.parametrize("rows", [4, 32])
def test_a_batch_filled_up_to_its_shape_gives_each_window_its_own_words_and_times(
    parakeet: ParakeetEngine, filling: Callable[[int, float], ParakeetEngine], windows: list[SpeechWindow], rows: int
) -> None:
    alone = parakeet.transcribe(windows)
    assert texts(filled := filling(rows, 30.0).transcribe(windows)) == texts(alone)
    assert times(filled) == times(alone)


def test_one_window_alone_among_32_and_beside_a_long_one_has_the_same_words(
    filling: Callable[[int, float], ParakeetEngine], talk: Samples
) -> None:
    engine = filling(32, 30.0)
    one, long = window(talk[15 * SAMPLE_RATE : 17 * SAMPLE_RATE]), window(talk)
    alone = engine.transcribe([one])
    assert alone[0].words
    assert engine.transcribe([one] * 32) == alone * 32
    assert engine.transcribe([long, one])[1:] == alone


def test_where_a_word_ends_does_not_depend_on_the_windows_beside_it() -> None:
    with resources.files("volery").joinpath("samples/digits.flac").open("rb") as stream:
        digits = decode(stream, "digits.flac", clip=None, max_seconds=60.0).samples
    shape = BatchShape(4, 4.0)
    engine = load_parakeet("pocket", torch.device("cpu"), ParakeetOptions(EAGER, FLOAT32, shape))
    windows = [window(digits[round(n * SAMPLE_RATE) : round((n + 3.5) * SAMPLE_RATE)]) for n in (0, 3, 6, 9.5)]
    assert engine.transcribe(windows) == [engine.transcribe([each])[0] for each in windows]


def test_windows_of_any_length_and_number_are_taken(parakeet: ParakeetEngine, talk: Samples) -> None:
    minute = np.concatenate([talk, talk])
    assert parakeet.transcribe([]) == []
    assert parakeet.transcribe([window(minute)])[0].words
    shortest = parakeet.transcribe([window(talk[:1]), window(talk[:160]), window(talk[:400])])
    assert all(0.0 <= word.start_s <= word.end_s <= 0.025 for each in shortest for word in each.words)
    many = parakeet.transcribe([window(talk[n * 16 : n * 16 + 4800]) for n in range(1000)])
    assert len(many) == 1000


def test_a_short_window_is_heard_in_the_middle_of_a_second_of_silence(
    parakeet: ParakeetEngine, talk: Samples, monkeypatch: pytest.MonkeyPatch
) -> None:
    forward, given = parakeet._forward, []

    def watched(signal: torch.Tensor, lengths: torch.Tensor) -> Any:
        given.append((signal, lengths))
        return forward(signal, lengths)

    monkeypatch.setattr(parakeet, "_forward", watched)
    short = talk[SAMPLE_RATE : SAMPLE_RATE + 4000]
    heard = parakeet.transcribe([window(short)])
    ((signal, lengths),) = given
    assert lengths.tolist() == [SAMPLE_RATE]
    assert np.array_equal(signal[0, 6000:10000].numpy(), short)
    assert not signal[0, :6000].any()
    assert not signal[0, 10000:].any()
    assert all(0.0 <= word.start_s <= word.end_s <= 0.25 for word in heard[0].words)


def test_silence_gives_an_empty_hypothesis_where_the_model_is_quiet(parakeet: ParakeetEngine, quiet: Any) -> None:
    with quiet(parakeet):
        assert parakeet.transcribe([window(silence(2))]) == [Hypothesis(())]


def test_a_batch_that_does_not_fit_is_halved_and_what_follows_too(
    filling: Callable[[int, float], ParakeetEngine], talk: Samples, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = filling(8, 2.0)
    windows = [window(talk[n * 3200 : n * 3200 + 16_000]) for n in range(40, 50)]
    expected = texts(engine.transcribe(windows))
    forward, rows = engine._forward, []

    def small_memory(signal: torch.Tensor, lengths: torch.Tensor) -> Any:
        rows.append(len(signal))
        if len(signal) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return forward(signal, lengths)

    monkeypatch.setattr(engine, "_forward", small_memory)
    assert texts(engine.transcribe(windows)) == expected
    assert rows == [8, 4, 2, 2, 2, 2, 2]


def test_memory_that_runs_out_while_the_decoder_makes_room_for_itself_leaves_it_usable(
    filling: Callable[[int, float], ParakeetEngine], talk: Samples, monkeypatch: pytest.MonkeyPatch
) -> None:
    windows = [window(talk[n * 3200 : n * 3200 + 16_000]) for n in range(40, 44)]
    expected, engine = filling(2, 2.0).transcribe(windows), filling(4, 2.0)
    predict, calls = engine.model.decoder.predict, []

    def small_memory(*given: Any, **named: Any) -> Any:
        calls.append(given)
        if len(calls) == 1:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return predict(*given, **named)

    monkeypatch.setattr(engine.model.decoder, "predict", small_memory)
    assert texts(engine.transcribe(windows)) == texts(expected)


def test_a_window_that_does_not_fit_alone_fails_its_unit_as_transient(
    nemo_file: Path, talk: Samples, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = pipeline_of(nemo_file)

    def no_memory(*_: object) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(pipeline.asr, "_forward", no_memory)
    (failed,) = pipeline.process([prepared(talk[: 14 * SAMPLE_RATE])])
    assert isinstance(failed, UnitFailed)
    assert failed.reason is Reason.SPEECH_OUT_OF_MEMORY


@pytest.mark.parametrize("asked", [True, False])
def test_on_a_cpu_graphs_do_not_apply_whether_asked_for_or_not(nemo_file: Path, asked: bool) -> None:
    engine = pipeline_of(nemo_file, asr_cuda_graphs_enabled=asked).asr
    assert engine.graphs == "inapplicable"
    live = engine.guard.live
    assert (live.allowed, live.mode, live.captured) == (False, None, False)


def test_a_mode_that_flips_while_the_worker_runs_stops_it_before_the_next_batch(nemo_file: Path, talk: Samples) -> None:
    pipeline = pipeline_of(nemo_file)
    unit = prepared(talk[: 14 * SAMPLE_RATE])
    pipeline.process([unit])
    computer = computer_of(pipeline.asr.model)
    computer.allow_cuda_graphs = True
    pipeline.asr.model.on_predict_epoch_start()
    with pytest.raises(QuarantineError, match="eager decoding was asked for"):
        pipeline.process([unit])


def test_a_mode_that_flips_during_a_transcription_voids_it(
    nemo_file: Path, talk: Samples, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = pipeline_of(nemo_file).asr
    forward = engine._forward

    def flips(signal: torch.Tensor, lengths: torch.Tensor) -> Any:
        heard = forward(signal, lengths)
        computer_of(engine.model).force_cuda_graphs_mode("full_graph")
        return heard

    monkeypatch.setattr(engine, "_forward", flips)
    with pytest.raises(QuarantineError, match="the mode is full_graph"):
        engine.transcribe([window(talk[: 2 * SAMPLE_RATE])])


@pytest.mark.parametrize("module", ["encoder", "decoder", "joint"])
def test_weights_in_another_precision_are_noticed(nemo_file: Path, talk: Samples, module: str) -> None:
    engine = pipeline_of(nemo_file).asr
    next(getattr(engine.model, module).parameters()).data = torch.zeros(1, dtype=torch.float64)
    with pytest.raises(QuarantineError, match=f"precision: {module} weights are torch.float32, torch.float64"):
        engine.options.precision.check(engine.model)


def test_autocast_is_noticed(parakeet: ParakeetEngine, talk: Samples) -> None:
    with (
        torch.autocast("cpu", dtype=torch.bfloat16),
        pytest.raises(QuarantineError, match="precision: autocast is on"),
    ):
        parakeet.transcribe([window(talk[: 2 * SAMPLE_RATE])])


def test_tf32_that_another_library_switched_on_is_switched_off(parakeet: ParakeetEngine, talk: Samples) -> None:
    torch.backends.cuda.matmul.allow_tf32 = True
    parakeet.transcribe([window(talk[: 2 * SAMPLE_RATE])])
    assert torch.backends.cuda.matmul.allow_tf32 is False


def test_weights_cast_to_bfloat16_still_decode(nemo_file: Path, talk: Samples) -> None:
    cast = ParakeetOptions(DecodingMode(graphs=False), Precision(torch.bfloat16, tf32=False))
    engine = load_parakeet(str(nemo_file), torch.device("cpu"), cast)
    assert engine.transcribe([window(talk[7 * SAMPLE_RATE : 14 * SAMPLE_RATE])])[0].words


def test_transcribing_leaves_the_decoder_in_place(parakeet: ParakeetEngine, windows: list[SpeechWindow]) -> None:
    before = computer_of(parakeet.model)
    parakeet.transcribe(windows)
    assert computer_of(parakeet.model) is before


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


def test_the_pocket_model_knows_english_alone() -> None:
    pipeline = pipeline_of("pocket")
    *others, english = pipeline.process([prepared(silence(1), language=one) for one in ("de", "klingonisch", "en-GB")])
    assert [one.reason for one in others] == [Reason.LANGUAGE_UNSUPPORTED] * 2
    assert english.result_class is ResultClass.NO_SPEECH


def test_a_file_that_is_no_model_is_named(tmp_path: Path) -> None:
    path = tmp_path / "broken.nemo"
    path.write_bytes(b"not an archive")
    with pytest.raises(ConfigurationError, match=r"broken\.nemo cannot be loaded"):
        load_parakeet(str(path), torch.device("cpu"), ON_CPU)
