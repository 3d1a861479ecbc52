"""Two texts word by word: what is the same, and what was dropped, added or put in its place."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import jiwer

from volery.results import WordRecord

_SEPARATOR = re.compile(r"[\s\u2010-\u2015/-]+")
"""Blanks, hyphens, dashes and slashes part words: `twenty-one` is two."""


@dataclass(frozen=True, slots=True)
class Token:
    """What is compared: a part of a word without case and punctuation, and the word that it is of."""

    text: str
    word: int


@dataclass(frozen=True, slots=True)
class Pair:
    """A word of the base beside its counterpart in the candidate, by index; None where it has none.

    `same` says that both are the same, save for case and punctuation.
    """

    base: int | None
    candidate: int | None
    same: bool = False


@dataclass(frozen=True, slots=True)
class Alignment:
    """The least changes that make the candidate's words of the base's, over words without case and punctuation."""

    pairs: tuple[Pair, ...]
    edits: int
    base_words: int


def tokens(words: Sequence[WordRecord]) -> list[Token]:
    """The words as they are compared; a word of punctuation alone is none."""
    return [Token(text, index) for index, word in enumerate(words) for text in normalised(word.text)]


@lru_cache(maxsize=1 << 16)
def normalised(text: str) -> tuple[str, ...]:
    """A word in lower case without punctuation, as the parts that hyphens part.

    Punctuation is what Unicode says is (categories P); a mark between two digits stays, since 3.5
    is not 35.
    """
    folded = unicodedata.normalize("NFKC", text).casefold()
    parts = ("".join(_without_marks(part)) for part in _SEPARATOR.split(folded))
    return tuple(part for part in parts if part)


def _without_marks(part: str) -> Iterator[str]:
    for place, letter in enumerate(part):
        between_digits = part[max(place - 1, 0)].isdigit() and part[place + 1 : place + 2].isdigit()
        if between_digits or not unicodedata.category(letter).startswith(("P", "C")):
            yield letter


def align(base: Sequence[WordRecord], candidate: Sequence[WordRecord]) -> Alignment:
    """Align two units' words. `edits` are the words dropped, added and replaced."""
    ours, theirs = tokens(base), tokens(candidate)
    found = jiwer.process_words(_joined(ours), _joined(theirs))
    pairs = [pair for chunk in found.alignments[0] for pair in _pairs(chunk, ours, theirs)]
    return Alignment(tuple(pairs), found.substitutions + found.deletions + found.insertions, len(ours))


def _joined(said: Sequence[Token]) -> str:
    return " ".join(token.text for token in said)


def _pairs(chunk: jiwer.AlignmentChunk, ours: Sequence[Token], theirs: Sequence[Token]) -> Iterator[Pair]:
    ours = ours[chunk.ref_start_idx : chunk.ref_end_idx]
    theirs = theirs[chunk.hyp_start_idx : chunk.hyp_end_idx]
    if chunk.type == "delete":
        yield from (Pair(token.word, None) for token in ours)
    elif chunk.type == "insert":
        yield from (Pair(None, token.word) for token in theirs)
    else:
        for one, other in zip(ours, theirs, strict=True):
            yield Pair(one.word, other.word, chunk.type == "equal")
