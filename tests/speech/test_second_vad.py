"""A second opinion on silence: the VAD engine that is not in use, as a shadow and to recover units."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import scipy.signal  # type: ignore[import-untyped]
from prometheus_client import REGISTRY
from speech_audio import Samples, decoded, prepared, silence
from structlog.testing import capture_logs

from volery.sampling import sampled
from volery.speech.second_vad import SURE, SURE_S, SecondVad, disagreement_s, is_sure
from volery.speech.segments import Activity
from volery.speech.vad import Detection
from volery.units import SAMPLE_RATE, ModelInfo, ResultClass, Segment, Transcript

if TYPE_CHECKING:
    from volery.speech.pipeline import SpeechPipeline

FAILED = "batch_pipeline_second_vad_failures_total"
RECOVERED = "batch_pipeline_vad_recovered_total"
SHADOWED = "batch_pipeline_vad_disagreement_seconds_count"
DISAGREED = "batch_pipeline_vad_disagreement_seconds_sum"
FRAME_S = 0.125
SOUND = silence(1)

Counted = Callable[[str], float]


def spans(*times: tuple[float, float]) -> tuple[Segment, ...]:
    return tuple(Segment(start_s, end_s) for start_s, end_s in times)


def heard(*, seconds: float, score: float) -> Detection:
    """An engine's finding of one stretch of speech with that score in every frame."""
    scores = np.full(round(seconds / FRAME_S), score, dtype=np.float32)
    return Detection(spans((0.0, seconds)), Activity(scores, FRAME_S / 2, FRAME_S))


NOTHING = Detection((), Activity(np.zeros(8, dtype=np.float32), FRAME_S / 2, FRAME_S))


class Engine:
    """Finds the same in every unit, or fails on it."""

    info = ModelInfo("vad", "stub", "nowhere", "0" * 64)

    def __init__(self, answer: Detection | Exception) -> None:
        self._answer = answer
        self.asked = 0

    def detect(self, samples: Samples) -> Detection:
        self.asked += 1
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer

    def probability(self, samples: Samples, detection: Detection) -> Activity:
        return detection.activity


@pytest.fixture
def counted() -> Counted:
    """How far a series has risen since the test began."""
    names = {FAILED: {"purpose": "shadow"}, RECOVERED: {}, SHADOWED: {}, DISAGREED: {}}
    before = {name: REGISTRY.get_sample_value(name, labels) or 0.0 for name, labels in names.items()}
    return lambda name: (REGISTRY.get_sample_value(name, names[name]) or 0.0) - before[name]


def shadow(answer: Detection | Exception, share: float = 1.0) -> SecondVad:
    return SecondVad(Engine(answer), shadow_share=share, recovers=False)


@pytest.mark.parametrize(
    ("one", "other", "seconds"),
    [
        ((), (), 0.0),
        (spans((1.0, 3.0)), (), 2.0),
        (spans((1.0, 3.0), (4.0, 5.0)), spans((1.0, 3.0), (4.0, 5.0)), 0.0),
        (spans((1.0, 3.0)), spans((2.0, 5.0)), 3.0),
        (spans((0.0, 9.0)), spans((1.0, 2.0), (4.0, 5.5)), 6.5),
        (spans((1.0, 2.0), (3.0, 4.0)), spans((2.0, 3.0)), 3.0),
    ],
    ids=["silence", "one alone", "the same", "overlapping", "inside", "in turn"],
)
def test_engines_disagree_where_exactly_one_calls_it_speech(
    one: tuple[Segment, ...], other: tuple[Segment, ...], seconds: float
) -> None:
    assert disagreement_s(one, other) == disagreement_s(other, one) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("seconds", "score", "sure"),
    [
        (SURE_S, SURE, True),
        (SURE_S - FRAME_S, 1.0, False),
        (60.0, SURE - 0.01, False),
    ],
    ids=["enough of enough", "too little of it", "not certain, however long"],
)
def test_an_engine_is_sure_of_enough_speech_of_which_it_is_certain(seconds: float, score: float, sure: bool) -> None:
    assert is_sure(heard(seconds=seconds, score=score).activity) is sure


def test_a_shadow_measures_the_disagreement_on_its_sample_alone(counted: Counted) -> None:
    second = shadow(heard(seconds=2.5, score=1.0), share=0.3)
    keys = [f"unit-{n}" for n in range(100)]
    for key in keys:
        second.shadow(key, SOUND, spans((0.0, 2.0)))
    expected = sum(sampled(key, 0.3, "vad-shadow") for key in keys)
    assert 0 < expected < 100
    assert (counted(SHADOWED), counted(DISAGREED)) == (expected, pytest.approx(expected * 0.5))


def test_a_shadow_without_a_share_runs_on_no_unit() -> None:
    second = shadow(NOTHING, share=0.0)
    for n in range(100):
        second.shadow(f"unit-{n}", SOUND, ())
    assert second.engine.asked == 0


def test_a_shadow_that_fails_is_counted_and_logged_with_its_unit_and_no_more(counted: Counted) -> None:
    with capture_logs() as lines:
        shadow(ValueError("what was said")).shadow("unit-7", SOUND, ())
    assert (counted(FAILED), counted(SHADOWED)) == (1, 0)
    [line] = lines
    assert (line["event"], line["key"], line["purpose"]) == ("the second VAD failed", "unit-7", "shadow")
    assert "what was said" not in str(line)


@pytest.mark.parametrize(
    "answer",
    [NOTHING, heard(seconds=60.0, score=0.6), MemoryError()],
    ids=["it hears nothing either", "it is not sure", "it fails"],
)
def test_a_silent_unit_stays_silent_unless_the_other_engine_is_sure(answer: Any, counted: Counted) -> None:
    second = SecondVad(Engine(answer), shadow_share=0.0, recovers=True)
    assert second.recovery("unit", SOUND, NOTHING) is None
    assert counted(RECOVERED) == 0


def test_a_recovered_unit_has_the_others_speech_and_its_own_engines_scores_for_diarization(counted: Counted) -> None:
    own: Any = object()
    found, silent = heard(seconds=2.0, score=1.0), Detection((), NOTHING.activity, own)
    recovery = SecondVad(Engine(found), shadow_share=0.0, recovers=True).recovery("unit", SOUND, silent)
    assert recovery is not None
    assert (recovery.speech, recovery.activity) == (found.speech, found.activity)
    assert recovery.segmentation is own
    assert counted(RECOVERED) == 1


def told(transcript: Any) -> Transcript:
    """All of a transcript but how long each stage took."""
    assert isinstance(transcript, Transcript)
    return replace(transcript, timings=tuple((stage, 0.0) for stage, _ in transcript.timings))


@pytest.mark.models
def test_a_shadow_changes_nothing_of_a_unit(
    pipeline: SpeechPipeline, talk: Samples, monkeypatch: pytest.MonkeyPatch, counted: Counted
) -> None:
    from volery.speech.vad import SileroVad

    units = [prepared(talk[7 * SAMPLE_RATE : 10 * SAMPLE_RATE], "talk"), prepared(silence(1), "silence")]
    states, plain = pipeline.switch_states(), [told(one) for one in pipeline.process(units)]
    assert pipeline.second_vad is None
    monkeypatch.setattr(pipeline, "second_vad", SecondVad(SileroVad(), shadow_share=1.0, recovers=False))
    assert [told(one) for one in pipeline.process(units)] == plain
    assert pipeline.switch_states() == states
    assert counted(SHADOWED) == 2
    assert 0 < counted(DISAGREED) < 1


@pytest.mark.models
def test_a_shadow_that_fails_leaves_its_unit_alone(
    pipeline: SpeechPipeline, monkeypatch: pytest.MonkeyPatch, counted: Counted
) -> None:
    monkeypatch.setattr(pipeline, "second_vad", shadow(RuntimeError("broken")))
    (transcript,) = pipeline.process([prepared(silence(1))])
    assert isinstance(transcript, Transcript)
    assert (counted(FAILED), counted(SHADOWED)) == (1, 0)


@pytest.mark.models
@pytest.mark.parametrize("name", ["silence_10s.flac", "white_noise_10s.flac"])
def test_what_is_silent_to_both_stays_silent(
    pipeline: SpeechPipeline, shared_data: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "second_vad", recovering_with_silero())
    (transcript,) = pipeline.process([prepared(decoded(shared_data / "audio-cases" / name))])
    assert (transcript.result_class, transcript.recovered) == (ResultClass.NO_SPEECH, False)


@pytest.mark.models
def test_pyannote_calls_dial_tones_speech_and_is_not_sure_of_it(pipeline: SpeechPipeline) -> None:
    times = np.arange(10 * SAMPLE_RATE) / SAMPLE_RATE
    tones = 0.2 * (np.sin(2 * np.pi * 770 * times) + np.sin(2 * np.pi * 1336 * times)) * (times % 0.5 < 0.2)
    samples = tones.astype(np.float32)
    assert pipeline.vad.detect(samples).speech
    assert SecondVad(pipeline.vad, shadow_share=0.0, recovers=True).recovery("tones", samples, NOTHING) is None


def recovering_with_silero() -> SecondVad:
    from volery.speech.vad import SileroVad

    return SecondVad(SileroVad(), shadow_share=0.0, recovers=True)


@pytest.fixture(scope="session")
def echoing(shared_data: Path) -> Samples:
    """People in a meeting, in a hall with an echo of almost two seconds, in which pyannote hears nobody."""
    dry = decoded(shared_data / "ami" / "trn09.wav")[: 6 * SAMPLE_RATE]
    hall = np.random.default_rng(0).standard_normal(SAMPLE_RATE) * np.exp(-np.arange(SAMPLE_RATE) / 4000)
    wet = scipy.signal.fftconvolve(dry, hall)[: len(dry)]
    return (0.5 * wet / np.abs(wet).max()).astype(np.float32)


@pytest.mark.models
def test_what_only_silero_hears_is_transcribed_and_nobody_is_named_whom_diarization_did_not_find(
    pipeline: SpeechPipeline, echoing: Samples, monkeypatch: pytest.MonkeyPatch
) -> None:
    (plain,) = pipeline.process([prepared(echoing)])
    assert (plain.result_class, plain.recovered, plain.words) == (ResultClass.NO_SPEECH, False, ())
    monkeypatch.setattr(pipeline, "second_vad", recovering_with_silero())
    (recovered,) = pipeline.process([prepared(echoing)])
    assert (recovered.result_class, recovered.recovered) == (ResultClass.SPEECH, True)
    assert recovered.speech
    assert len(recovered.words) > 10
    assert (recovered.turns, {word.speaker for word in recovered.words}) == ((), {None})
    assert dict(recovered.switches)["vad_recovery"] == "on"


@pytest.mark.models
@pytest.mark.slow
def test_reuse_changes_nothing_of_a_recovered_unit(
    pipeline: SpeechPipeline, plain_pipeline: SpeechPipeline, echoing: Samples, monkeypatch: pytest.MonkeyPatch
) -> None:
    transcripts = []
    for each in (pipeline, plain_pipeline):
        monkeypatch.setattr(each, "second_vad", recovering_with_silero())
        (transcript,) = each.process([prepared(echoing)])
        transcripts.append(replace(told(transcript), switches=()))
    assert transcripts[0].recovered
    assert transcripts[0] == transcripts[1]


@pytest.mark.models
def test_what_only_pyannote_hears_is_transcribed_and_the_result_says_how(talk: Samples) -> None:
    from volery.settings import ProviderConfig, SpeechSettings
    from volery.speech.pipeline import load_pipeline

    settings = SpeechSettings(models="embedded", device="cpu", cpu_threads=1, vad_engine="silero")
    pipeline = load_pipeline(settings, ProviderConfig(vad_recovery_enabled=True))
    quiet = talk[7 * SAMPLE_RATE : 10 * SAMPLE_RATE] * np.float32(10 ** (-50 / 20))
    (recovered,) = pipeline.process([prepared(quiet)])
    assert (recovered.result_class, recovered.recovered) == (ResultClass.SPEECH, True)
    assert "didn't know you were there" in " ".join(word.text for word in recovered.words)
    assert {word.speaker for word in recovered.words} == {"SPEAKER_00"}
    assert [model.role for model in recovered.models] == ["vad", "segmentation", "embedding", "asr", "second_vad"]
    assert dict(recovered.switches) == {
        "vad_segmentation_reuse": "inapplicable",
        "asr_cuda_graphs": "inapplicable",
        "vad_recovery": "on",
    }
