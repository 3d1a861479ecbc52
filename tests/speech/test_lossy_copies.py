"""A lossy copy of a conversation: other samples, the same two speakers, nearly the same words."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

import jiwer
import pytest
from speech_audio import Samples, prepared

from audio.sounds import decoded, encode
from volery.units import SAMPLE_RATE, Transcript, Turn

if TYPE_CHECKING:
    from volery.speech.pipeline import SpeechPipeline

pytestmark = pytest.mark.models


def transcript(pipeline: SpeechPipeline, samples: Samples) -> Transcript:
    (found,) = pipeline.process([prepared(samples)])
    assert isinstance(found, Transcript)
    return found


@pytest.fixture(scope="module")
def original(pipeline: SpeechPipeline, talk: Samples) -> Transcript:
    return transcript(pipeline, talk)


def text(of: Transcript) -> str:
    return " ".join(word.text.lower().strip(".,?!") for word in of.words)


def speaking(turns: tuple[Turn, ...]) -> list[set[int]]:
    """For each speaker, the tenths of a second in which they speak."""
    tenths: dict[str, set[int]] = {}
    for turn in turns:
        tenths.setdefault(turn.speaker, set()).update(range(round(turn.start_s * 10), round(turn.end_s * 10)))
    return list(tenths.values())


def agreement(one: list[set[int]], other: list[set[int]]) -> float:
    """The share of time in which both have the same speaker, whatever the speakers are called."""
    total = len(set.union(*one, *other))
    return max(
        sum(len(left & right) for left, right in zip(one, order, strict=True)) / total for order in permutations(other)
    )


@pytest.mark.parametrize("kind", ["ogg libopus", "mp3 libmp3lame", "ipod aac"])
def test_a_lossy_copy_has_the_same_speakers_and_nearly_the_same_words(
    pipeline: SpeechPipeline, talk: Samples, original: Transcript, kind: str
) -> None:
    copy = transcript(pipeline, decoded(encode(talk, SAMPLE_RATE, kind)).samples)
    assert jiwer.wer(text(original), text(copy)) <= 0.12
    there, here = speaking(original.turns), speaking(copy.turns)
    assert (len(there), len(here)) == (2, 2)
    assert agreement(there, here) > 0.9
