"""Sequences to train and judge on: words lie where they are said to, and labels may go where words lie."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pocket_parakeet.batches import batch_of, batches
from pocket_parakeet.clips import WORDS, Clip
from pocket_parakeet.noise import COLOURS, SAMPLE_RATE, amplitude, coloured, rms
from pocket_parakeet.sequences import Composer, join


class Speller:
    """Spells a word as one token a letter, as a tokenizer might."""

    def text_to_ids(self, text: str) -> list[int]:
        return [ord(letter) - ord("a") for letter in text]


def tone(digit: int, seconds: float = 0.4, voice: str = "a") -> Clip:
    time = np.arange(round(seconds * SAMPLE_RATE)) / SAMPLE_RATE
    return Clip(digit, voice, np.sin(2 * np.pi * 300 * time).astype(np.float32) * np.float32(2**0.5))


def test_joined_words_lie_where_their_samples_are() -> None:
    sequence = join([tone(3), tone(8, 0.2)], [0.5, 0.25, 1.0])

    assert sequence.text == "three eight"
    assert [(word.start_s, word.end_s) for word in sequence.words] == [(0.5, 0.9), (1.15, 1.35)]
    assert len(sequence.samples) == 2.35 * SAMPLE_RATE
    heard = np.flatnonzero(sequence.samples) / SAMPLE_RATE
    assert heard[0] == pytest.approx(0.5, abs=1e-3)
    assert heard[-1] == pytest.approx(1.35, abs=1e-3)


@pytest.mark.parametrize("colour", COLOURS)
def test_noise_has_the_level_asked_for(colour: str) -> None:
    noise = coloured(colour, SAMPLE_RATE, np.random.default_rng(0))

    assert len(noise) == SAMPLE_RATE
    assert rms(noise) == pytest.approx(1.0, rel=1e-3)


def test_twenty_decibels_are_a_factor_of_ten() -> None:
    assert amplitude(-20) == pytest.approx(0.1)


def test_composed_sequences_are_clean_of_impossible_samples_and_keep_words_in_order() -> None:
    composer = Composer([tone(digit) for digit in range(10)], [tone(7, voice="robot")], np.random.default_rng(1))

    for sequence in (composer.compose() for _ in range(60)):
        duration_s = len(sequence.samples) / SAMPLE_RATE
        assert np.isfinite(sequence.samples).all()
        assert np.abs(sequence.samples).max(initial=0.0) <= 1.0
        times = [time for word in sequence.words for time in (word.start_s, word.end_s)]
        assert times == sorted(times)
        assert all(0.0 <= time <= duration_s for time in times)


def test_some_composed_sequences_hold_no_words() -> None:
    composer = Composer([tone(1)], [], np.random.default_rng(2))

    wordless = [sequence for sequence in (composer.compose() for _ in range(80)) if not sequence.words]

    assert 0 < len(wordless) < 40


def test_a_composer_with_the_same_seed_composes_the_same() -> None:
    first, second = (Composer([tone(1), tone(2)], [], np.random.default_rng(3)) for _ in range(2))

    assert np.array_equal(first.compose().samples, second.compose().samples)


def test_batches_hold_sequences_of_like_length_within_their_limit() -> None:
    composer = Composer([tone(digit) for digit in range(10)], [], np.random.default_rng(4))
    source = batches(composer, Speller(), np.random.default_rng(5))

    for _, batch in zip(range(6), source, strict=False):
        assert batch.samples.numel() <= 60 * SAMPLE_RATE
        assert batch.label_counts.tolist() == [sum(pieces) for pieces in batch.pieces]


def test_first_pieces_start_and_last_pieces_end_where_the_word_does() -> None:
    sequence = join([tone(2, 0.48), tone(6, 0.4)], [0.8, 0.4, 0.4])  # "two" 0.8 to 1.28 s, "six" 1.68 to 2.08 s
    batch = batch_of([sequence], Speller())

    bounds = batch.bounds(torch.tensor([31]))

    assert WORDS[2] == "two"
    assert (bounds.earliest[0, 0], bounds.latest[0, 0]) == (9, 11)
    assert (bounds.lands_from[0, 2], bounds.lands_by[0, 2]) == (15, 17)
    assert (bounds.earliest[0, 3], bounds.latest[0, 3]) == (20, 22)
    assert (bounds.lands_from[0, 5], bounds.lands_by[0, 5]) == (25, 27)


def test_words_at_the_very_end_may_still_be_emitted() -> None:
    sequence = join([tone(6, 0.4)], [0.0, 0.0])
    frames = 5

    bounds = batch_of([sequence], Speller()).bounds(torch.tensor([frames]))

    assert bounds.lands_from[0, -1] < frames
