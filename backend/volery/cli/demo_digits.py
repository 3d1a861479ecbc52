"""The digits of `volery demo`: who says which when, and how much of that a result has right."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path

from volery.results import WordRecord

SAMPLES = Path(__file__).parent.parent / "samples"


@dataclass(frozen=True, slots=True)
class SaidWord:
    """A word that was really said; times in seconds."""

    text: str
    start_s: float
    end_s: float
    speaker: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """Of `said` words those heard `right`, those of them with the right speaker, and what else was heard."""

    said: int
    right: int
    right_speaker: int
    other: int

    @property
    def in_words(self) -> str:
        """All of it in a line."""
        right = f"{self.right} of {self.said} digits right, {self.right_speaker} with the right speaker"
        return f"{right}, {self.other} other words heard"


def said_digits() -> list[SaidWord]:
    """What the two voices of `digits.flac` say."""
    return [SaidWord(**entry) for entry in json.loads((SAMPLES / "digits.json").read_text(encoding="utf-8"))]


def compare(said: Sequence[SaidWord], heard: Sequence[WordRecord]) -> Comparison:
    """How much of what was said was heard: the same word at the same time.

    A result's speakers have numbers and no names: they are matched to the real ones, one to one,
    in the way in which most words agree.
    """
    pairs = list(_matched(said, heard))
    return Comparison(len(said), len(pairs), _with_right_speaker(pairs), len(heard) - len(pairs))


def _matched(said: Sequence[SaidWord], heard: Sequence[WordRecord]) -> Iterator[tuple[SaidWord, WordRecord]]:
    """Words that were said with those heard that have the same text and overlap them, each used once."""
    left = list(heard)
    for word in said:
        for other in left:
            if other.text == word.text and other.start_s < word.end_s and other.end_s > word.start_s:
                left.remove(other)
                yield word, other
                break


def _with_right_speaker(pairs: Sequence[tuple[SaidWord, WordRecord]]) -> int:
    people = sorted({word.speaker for word, _ in pairs})
    numbers = sorted({other.speaker for _, other in pairs if other.speaker})
    nobody = [""] * len(people)  # there may be fewer numbers than people
    return max(
        sum(dict(zip(people, given, strict=True))[word.speaker] == other.speaker for word, other in pairs)
        for given in permutations([*numbers, *nobody], len(people))
    )
