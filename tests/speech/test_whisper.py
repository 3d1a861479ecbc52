"""Whisper, embedded, on real speech windows."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from speech_audio import Samples, decoded

from volery.speech.windows import SpeechWindow
from volery.units import SAMPLE_RATE, ConfigurationError

if TYPE_CHECKING:
    from volery.speech.asr import AsrEngine
    from volery.speech.pipeline import SpeechPipeline

pytestmark = pytest.mark.models


@pytest.fixture
def whisper(pipeline: SpeechPipeline) -> AsrEngine:
    return pipeline.asr


def window(samples: Samples) -> SpeechWindow:
    return SpeechWindow(0, 0.0, samples)


def test_spoken_digits_are_heard(whisper: AsrEngine, shared_data: Path) -> None:
    samples = decoded(shared_data / "audio-cases" / "speech.opus")
    (heard,) = whisper.transcribe([window(samples)])
    assert [word.text.lower().strip(",.") for word in heard.words] == ["three", "one", "four", "one", "five", "nine"]
    assert heard.language == "en"


def test_words_are_in_order_inside_their_window(whisper: AsrEngine, talk: Samples) -> None:
    part = talk[7 * SAMPLE_RATE : 20 * SAMPLE_RATE]
    (heard,) = whisper.transcribe([window(part)])
    assert len(heard.words) > 20
    assert all(0 <= word.start_s < word.end_s <= 13 and 0 < word.confidence <= 1 for word in heard.words)
    assert all(before.end_s <= after.start_s for before, after in pairwise(heard.words))


def test_a_window_sounds_the_same_beside_any_others(whisper: AsrEngine, talk: Samples) -> None:
    windows = [window(talk[first * SAMPLE_RATE : (first + 4) * SAMPLE_RATE]) for first in (8, 14, 22)]
    together = whisper.transcribe(windows)
    assert list(reversed(whisper.transcribe(windows[::-1]))) == together
    assert [whisper.transcribe([each])[0] for each in windows] == together


@pytest.mark.parametrize("seconds", [0.02, 0.1, 1.0, 30.0])
def test_silence_of_any_length_gives_no_loop_of_words(whisper: AsrEngine, seconds: float) -> None:
    (heard,) = whisper.transcribe([window(np.zeros(round(seconds * SAMPLE_RATE), dtype=np.float32))])
    assert len(heard.words) <= 2


def test_speech_repeated_many_times_is_not_lost_in_a_loop(whisper: AsrEngine, shared_data: Path) -> None:
    digit = decoded(shared_data / "audio-cases" / "one_digit.wav")
    spaced = np.concatenate([digit, np.zeros(SAMPLE_RATE, dtype=np.float32)])
    (heard,) = whisper.transcribe([window(np.tile(spaced, 12))])
    assert len(heard.words) <= 24


def test_no_windows_give_no_hypotheses(whisper: AsrEngine) -> None:
    assert whisper.transcribe([]) == []


def test_an_english_model_says_that_it_knows_only_english(whisper: AsrEngine) -> None:
    assert whisper.languages == frozenset({"en"})


def test_a_folder_without_a_model_is_named(tmp_path: Path) -> None:
    from volery.speech.whisper import load_whisper

    with pytest.raises(ConfigurationError, match=r"holds no model\.bin"):
        load_whisper(str(tmp_path), embedded=False, cpu_threads=1)


def test_a_broken_model_is_named(tmp_path: Path) -> None:
    from volery.speech.whisper import load_whisper

    (tmp_path / "model.bin").write_bytes(b"no model at all")
    with pytest.raises(ConfigurationError, match="cannot be loaded"):
        load_whisper(str(tmp_path), embedded=False, cpu_threads=1)
