"""The model that is shipped, held to what its card says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from nemo.collections.asr.models import ASRModel

from pocket_parakeet import clips
from pocket_parakeet.evaluation import Figures, Listener, decoded, evaluate, joined
from pocket_parakeet.noise import SAMPLE_RATE

SHIPPED = Path(__file__).resolve().parents[2] / "backend" / "volery" / "models" / "pocket" / "pocket.nemo"

pytestmark = pytest.mark.models


@pytest.fixture(scope="module")
def listener() -> Listener:
    return Listener(SHIPPED)


@pytest.fixture(scope="module")
def figures(shared_data: Path) -> Figures:
    """Of every digit of every speaker, in two of the takes that no training saw."""
    data = shared_data / "fsdd"
    return evaluate(SHIPPED, clips.people(data, [0, 3], clips.speakers(data)), sequences=25, cases=None, seed=2)


def test_every_take_and_sequence_is_heard_as_nemos_own_transcribe_hears_it(
    listener: Listener, shared_data: Path
) -> None:
    data = shared_data / "fsdd"
    takes = clips.people(data, [1], clips.speakers(data))
    units = [take.samples * np.float32(0.08) for take in takes]
    units += [sequence.samples for sequence in joined(takes, 12, np.random.default_rng(5))]

    expected = ASRModel.restore_from(str(SHIPPED), map_location="cpu").transcribe(units, batch_size=1, verbose=False)

    assert [listener.text(samples) for samples in units] == [one.text for one in expected]


def test_few_words_of_a_sequence_are_wrong(figures: Figures) -> None:
    assert figures.wer_joined <= 0.03


def test_few_words_said_alone_are_wrong(figures: Figures) -> None:
    assert figures.wer_takes <= 0.03


def test_words_start_and_end_about_where_they_are_said(figures: Figures) -> None:
    assert figures.times is not None
    assert figures.times.words > 50
    assert figures.times.start_median_s <= 0.08
    assert figures.times.end_median_s <= 0.16


def test_nothing_is_heard_in_silence_and_noise(figures: Figures) -> None:
    assert figures.invented == {}


@pytest.mark.parametrize("name", ["silence_10s.flac", "white_noise_10s.flac", "dc_offset_5s.flac", "twenty_ms.wav"])
def test_nothing_is_heard_in_a_file_without_words(listener: Listener, shared_data: Path, name: str) -> None:
    assert listener.text(decoded(shared_data / "audio-cases" / name)) == ""


@pytest.mark.parametrize(
    ("name", "digits"),
    [
        ("mulaw_8k.wav", "one two three four"),
        ("pcm24_48k.wav", "nine nine one"),
        ("non_finite_float.wav", "four four two"),
        ("one_digit.wav", "six"),
        ("speech.opus", "three one four one five nine"),
    ],
)
def test_the_digits_of_odd_files_are_heard(listener: Listener, shared_data: Path, name: str, digits: str) -> None:
    assert listener.text(decoded(shared_data / "audio-cases" / name)) == digits


def test_twenty_seconds_of_silence_erase_no_word(listener: Listener, shared_data: Path) -> None:
    samples = decoded(shared_data / "audio-cases" / "long_silent_tail.flac")

    words = listener.words(samples)

    assert " ".join(word.text for word in words) == "three one four one five nine"
    assert len(samples) / SAMPLE_RATE - words[-1].end_s > 19


def test_the_model_is_small_enough_to_ship() -> None:
    assert SHIPPED.stat().st_size <= 12_000_000
