"""Groups of decoded units through VAD, diarization and ASR."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from prometheus_client import REGISTRY
from speech_audio import Samples, decoded, prepared, silence

from volery.units import (
    SAMPLE_RATE,
    ConfigurationError,
    QuarantineError,
    Reason,
    ResultClass,
    Transcript,
    UnitFailed,
    UnitRejected,
)

if TYPE_CHECKING:
    from volery.speech.pipeline import SpeechPipeline

pytestmark = pytest.mark.models

STAGES = ("vad", "diarize", "asr")


@pytest.fixture(scope="session")
def conversation_transcript(pipeline: SpeechPipeline, talk: Samples) -> Transcript:
    (transcript,) = pipeline.process([prepared(talk)])
    assert isinstance(transcript, Transcript)
    return transcript


def found(transcript: object) -> tuple[object, ...]:
    """What a transcript says, without how long it took."""
    assert isinstance(transcript, Transcript)
    return transcript.result_class, transcript.words, transcript.turns, transcript.speech, transcript.language


def test_a_conversation_becomes_words_with_speakers(conversation_transcript: Transcript) -> None:
    assert conversation_transcript.result_class is ResultClass.SPEECH
    assert len(conversation_transcript.words) > 60
    assert {word.speaker for word in conversation_transcript.words} == {"SPEAKER_00", "SPEAKER_01"}
    assert conversation_transcript.language == "en"


def test_most_words_of_a_conversation_are_right(conversation_transcript: Transcript, conversation: Path) -> None:
    jiwer = pytest.importorskip("jiwer", reason="jiwer is not installed")
    normal = jiwer.Compose([jiwer.ToLowerCase(), jiwer.RemovePunctuation()])
    lines = conversation.with_suffix(".stm").read_text().splitlines()
    said = " ".join(line.split(maxsplit=5)[5] for line in lines if line)
    heard = " ".join(word.text for word in conversation_transcript.words)
    assert jiwer.wer(normal(said), normal(heard)) < 0.2


def test_words_are_in_order_inside_the_unit(conversation_transcript: Transcript) -> None:
    words = conversation_transcript.words
    assert all(0 <= word.start_s < word.end_s <= 30 for word in words)
    assert all(before.end_s <= after.start_s for before, after in pairwise(words))


def test_a_result_says_what_made_it(pipeline: SpeechPipeline, conversation_transcript: Transcript) -> None:
    assert [model.role for model in conversation_transcript.models] == ["vad", "segmentation", "embedding", "asr"]
    assert all(len(model.digest) == 64 for model in conversation_transcript.models)
    assert dict(conversation_transcript.switches) == pipeline.switch_states()
    assert dict(conversation_transcript.switches) == {
        "vad_segmentation_reuse": "on",
        "asr_cuda_graphs": "inapplicable",
        "vad_recovery": "off",
    }
    assert all(seconds > 0 for seconds in dict(conversation_transcript.timings).values())
    assert set(dict(conversation_transcript.timings)) == set(STAGES)


def test_a_unit_gives_the_same_alone_in_a_group_and_in_any_order(
    pipeline: SpeechPipeline, talk: Samples, shared_data: Path
) -> None:
    digits = decoded(shared_data / "audio-cases" / "speech.opus")
    parts = [talk[6 * SAMPLE_RATE : 19 * SAMPLE_RATE], digits, silence(3), talk[7 * SAMPLE_RATE : 11 * SAMPLE_RATE]]
    units = [prepared(samples, str(index)) for index, samples in enumerate(parts)]
    forward = [found(each) for each in pipeline.process(units)]
    backward = [found(each) for each in pipeline.process(units[::-1])]
    assert backward[::-1] == forward
    assert [found(pipeline.process([unit])[0]) for unit in units] == forward


def test_wav_and_flac_give_the_same(
    pipeline: SpeechPipeline, talk: Samples, conversation_transcript: Transcript, tmp_path: Path
) -> None:
    flac = as_flac(talk, tmp_path)
    (transcript,) = pipeline.process([prepared(decoded(flac))])
    assert found(transcript) == found(conversation_transcript)


def as_flac(samples: Samples, folder: Path) -> Path:
    import av

    path = folder / "talk.flac"
    pcm = np.round(samples * 32768).clip(-32768, 32767).astype(np.int16)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("flac", rate=SAMPLE_RATE, layout="mono")
        frame = av.AudioFrame.from_ndarray(pcm[None], format="s16", layout="mono")
        frame.sample_rate = SAMPLE_RATE
        container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


@pytest.mark.parametrize("name", ["silence_10s.flac", "white_noise_10s.flac", "dc_offset_5s.flac", "twenty_ms.wav"])
def test_audio_without_speech_is_no_speech(pipeline: SpeechPipeline, shared_data: Path, name: str) -> None:
    (transcript,) = pipeline.process([prepared(decoded(shared_data / "audio-cases" / name))])
    assert transcript.result_class is ResultClass.NO_SPEECH
    assert (transcript.words, transcript.turns, transcript.speech, transcript.language) == ((), (), (), None)


def test_a_silent_unit_reaches_neither_diarization_nor_asr(
    pipeline: SpeechPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline.diarizer, "turns", lambda *_, **__: pytest.fail("diarized"))
    monkeypatch.setattr(pipeline.asr, "transcribe", lambda windows: [pytest.fail("transcribed") for _ in windows])
    (transcript,) = pipeline.process([prepared(silence(2))])
    assert transcript.result_class is ResultClass.NO_SPEECH


def test_long_silence_after_speech_does_not_erase_it(pipeline: SpeechPipeline, shared_data: Path) -> None:
    (transcript,) = pipeline.process([prepared(decoded(shared_data / "audio-cases" / "long_silent_tail.flac"))])
    assert len(transcript.words) >= 5


def test_speech_in_which_no_word_is_heard_is_no_words(
    pipeline: SpeechPipeline, talk: Samples, monkeypatch: pytest.MonkeyPatch
) -> None:
    from volery.speech.asr import Hypothesis

    monkeypatch.setattr(pipeline.asr, "transcribe", lambda windows: [Hypothesis(()) for _ in windows])
    (transcript,) = pipeline.process([prepared(talk[: 12 * SAMPLE_RATE])])
    assert transcript.result_class is ResultClass.NO_WORDS
    assert transcript.turns


def test_an_empty_group_and_an_empty_unit_are_nothing_special(pipeline: SpeechPipeline) -> None:
    assert pipeline.process([]) == []
    (transcript,) = pipeline.process([prepared(silence(0))])
    assert transcript.result_class is ResultClass.NO_SPEECH


def test_a_language_that_the_model_lacks_rejects_that_unit_alone(pipeline: SpeechPipeline) -> None:
    rejected, fine = pipeline.process([prepared(silence(1), language="fr"), prepared(silence(1), language="en-US")])
    assert isinstance(rejected, UnitRejected)
    assert rejected.reason is Reason.LANGUAGE_UNSUPPORTED
    assert isinstance(fine, Transcript)


@pytest.mark.parametrize("stage", STAGES)
def test_one_units_failure_is_its_own(
    pipeline: SpeechPipeline, talk: Samples, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    units = [prepared(talk[7 * SAMPLE_RATE : 11 * SAMPLE_RATE], "good"), prepared(-talk[: 11 * SAMPLE_RATE], "bad")]
    break_stage(pipeline, stage, units[1].audio.samples, MemoryError("out"), monkeypatch)
    good, bad = pipeline.process(units)
    assert isinstance(good, Transcript)
    assert good.words
    assert isinstance(bad, UnitFailed)
    assert bad.reason is Reason.SPEECH_OUT_OF_MEMORY


@pytest.mark.parametrize("stage", STAGES)
def test_quarantine_leaves_the_pipeline(
    pipeline: SpeechPipeline, talk: Samples, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    unit = prepared(talk[7 * SAMPLE_RATE : 9 * SAMPLE_RATE])
    break_stage(pipeline, stage, unit.audio.samples, QuarantineError("decoder_mode", "not as asked"), monkeypatch)
    with pytest.raises(QuarantineError, match="decoder_mode"):
        pipeline.process([unit])


def break_stage(
    pipeline: SpeechPipeline, stage: str, poison: Samples, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Let a stage fail whenever it is given this unit's samples."""
    owner, name = {"vad": (pipeline.vad, "detect"), "diarize": (pipeline.diarizer, "turns")}.get(
        stage, (pipeline.asr, "transcribe")
    )
    real = getattr(owner, name)

    def failing(given: object, **options: object) -> object:
        pieces = [given] if isinstance(given, np.ndarray) else [window.samples for window in given]
        if any(np.shares_memory(piece, poison) for piece in pieces):
            raise error
        return real(given, **options)

    monkeypatch.setattr(owner, name, failing)


def test_each_stage_is_observed_once_a_group(pipeline: SpeechPipeline) -> None:
    def observed() -> list[float]:
        name = "batch_pipeline_stage_seconds_count"
        return [REGISTRY.get_sample_value(name, {"stage": stage}) or 0.0 for stage in STAGES]

    before = observed()
    pipeline.process([prepared(silence(1)), prepared(silence(2))])
    assert [after - earlier for after, earlier in zip(observed(), before, strict=True)] == [1, 1, 1]


def test_audio_that_is_not_writable_is_left_alone(pipeline: SpeechPipeline, talk: Samples) -> None:
    samples = talk[7 * SAMPLE_RATE : 11 * SAMPLE_RATE].copy()
    samples.flags.writeable = False
    (transcript,) = pipeline.process([prepared(samples)])
    assert transcript.words


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"asr_model": "./nowhere"}, r"\./nowhere, which does not exist"),
        ({"asr_engine": "parakeet", "asr_model": "./nowhere.nemo"}, r"\./nowhere\.nemo, which does not exist"),
        ({"diarization_model": "./nowhere.yaml"}, r"\./nowhere\.yaml, which does not exist"),
    ],
)
def test_settings_that_cannot_work_stop_the_start(settings: dict[str, str], message: str) -> None:
    from volery.settings import ProviderConfig, SpeechSettings
    from volery.speech.pipeline import load_pipeline

    with pytest.raises(ConfigurationError, match=message):
        load_pipeline(SpeechSettings(models="embedded", device="cpu", **settings), ProviderConfig())


@pytest.mark.parametrize("engine", ["parakeet", "whisper"])
def test_production_models_without_a_hub_stop_the_start(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    from volery.settings import ProviderConfig, SpeechSettings
    from volery.speech.pipeline import load_pipeline

    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", "nowhere")
    with pytest.raises(ConfigurationError, match="--models embedded"):
        load_pipeline(SpeechSettings(models="hub", device="cpu", asr_engine=engine), ProviderConfig())
