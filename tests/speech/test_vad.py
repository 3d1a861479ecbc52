"""Both engines find the speech of real recordings, and none where there is none."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from speech_audio import Samples, decoded, silence

from volery.units import SAMPLE_RATE

if TYPE_CHECKING:
    from volery.speech.pipeline import SpeechPipeline
    from volery.speech.vad import VadEngine

pytestmark = pytest.mark.models

WITHOUT_SPEECH = ["silence_10s.flac", "white_noise_10s.flac", "dc_offset_5s.flac", "twenty_ms.wav"]
WITH_DIGITS = ["one_digit.wav", "long_silent_tail.flac", "mulaw_8k.wav", "pcm24_48k.wav", "speech.opus"]


@pytest.fixture(scope="session")
def silero() -> VadEngine:
    from volery.speech.vad import SileroVad

    return SileroVad()


@pytest.fixture(params=["pyannote", "silero"])
def vad(request: pytest.FixtureRequest, pipeline: SpeechPipeline, silero: VadEngine) -> VadEngine:
    return silero if request.param == "silero" else pipeline.vad


@pytest.mark.parametrize("name", WITHOUT_SPEECH)
def test_nothing_is_found_where_nobody_speaks(vad: VadEngine, shared_data: Path, name: str) -> None:
    assert vad.detect(decoded(shared_data / "audio-cases" / name)).speech == ()


@pytest.mark.parametrize("name", WITH_DIGITS)
def test_spoken_digits_are_found(vad: VadEngine, shared_data: Path, name: str) -> None:
    assert vad.detect(decoded(shared_data / "audio-cases" / name)).speech


def test_the_silence_after_speech_stays_outside(vad: VadEngine, shared_data: Path) -> None:
    assert vad.detect(decoded(shared_data / "audio-cases" / "long_silent_tail.flac")).speech[-1].end_s < 6


def test_the_conversation_starts_after_six_seconds(vad: VadEngine, talk: Samples) -> None:
    """Its reference has the first word from 6.68 s; before that, a beep."""
    speech = vad.detect(talk).speech
    assert speech[0].start_s == pytest.approx(6.68, abs=0.3)
    assert sum(segment.end_s - segment.start_s for segment in speech) > 18


@pytest.mark.parametrize("samples", [0, 1, 319, 511, 512])
def test_audio_shorter_than_any_window_holds_no_speech(vad: VadEngine, samples: int) -> None:
    assert vad.detect(silence(samples / SAMPLE_RATE)).speech == ()
