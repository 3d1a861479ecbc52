"""How far the published words and the referee's lie apart, whatever they look like in writing."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import jiwer
from whisper_normalizer.basic import BasicTextNormalizer
from whisper_normalizer.english import EnglishTextNormalizer

_UNSPACED = frozenset(("zh", "yue", "ja", "th", "lo", "my"))
"""Languages written without blanks between words: letters are compared (Radford et al., 2022, section 3.2)."""

_LEADING_ZEROS = re.compile(r"\b0\d+\b")
_BETWEEN_DIGITS = re.compile(r"(?<=\d)(?=\d)")


@dataclass(frozen=True, slots=True)
class Distance:
    """What it takes to turn one text into another; `words` is how many the reference has."""

    edits: int
    words: int

    @property
    def disagreement(self) -> float:
        """The word error rate, at most 1: words where the reference has none, or none of its own, are 1."""
        return min(self.edits / max(self.words, 1), 1.0)


def distance(published: str, reference: str, language: str | None) -> Distance:
    """Compare two texts of a language, both normalised; None where nobody knows which it is."""
    ours, theirs = normalised(published, language), normalised(reference, language)
    words = len(theirs.split())
    if not words:
        return Distance(len(ours.split()), 0)
    found = jiwer.process_words(theirs, ours)
    return Distance(found.substitutions + found.deletions + found.insertions, words)


def normalised(text: str, language: str | None) -> str:
    """Words as they are compared: without case, punctuation and, in English, choices of spelling.

    English numbers become figures, one word a digit, so that `one two`, `12` and `twelve` are the same.
    """
    code = code_of(language)
    words = _english_words(text) if code == "en" else _basic(code in _UNSPACED)(text).split()
    return " ".join(word for word in words if any(map(str.isalnum, word)))


def code_of(language: str | None) -> str | None:
    """The code of a language however it was named: `en` for `en-GB` and `EN_us`; None where none was."""
    return (language and language.strip().lower().replace("_", "-").partition("-")[0]) or None


def _english_words(text: str) -> list[str]:
    # The normaliser reads 007 as 7 and makes a word of a single 1, whereas "one two" becomes 12.
    figures = _english()(_LEADING_ZEROS.sub(lambda found: " ".join(found[0]), text))
    return ["1" if word == "one" else word for word in _BETWEEN_DIGITS.sub(" ", figures).split()]


@cache
def _english() -> Callable[[str], str]:
    return EnglishTextNormalizer()  # type: ignore[no-any-return]


@cache
def _basic(split_letters: bool) -> Callable[[str], str]:
    return BasicTextNormalizer(split_letters=split_letters)  # type: ignore[no-any-return]
