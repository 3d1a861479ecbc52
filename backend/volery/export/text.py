"""A result as plain text, one paragraph for each change of speaker."""

from __future__ import annotations

import unicodedata
from itertools import groupby

from volery.results import UnitResult, WordRecord


def one_line(text: str) -> str:
    """Text without line breaks, control characters or runs of spaces."""
    kept = (character for character in text if character.isspace() or unicodedata.category(character) != "Cc")
    return " ".join("".join(kept).split())


def in_order(result: UnitResult) -> list[WordRecord]:
    """The words that have any text, by their start."""
    return sorted((word for word in result.words if one_line(word.text)), key=lambda word: word.start_s)


def to_txt(result: UnitResult) -> str:
    """Paragraphs such as `[00:01.2] SPEAKER_00: good morning`, a blank line between two.

    The time is minutes, seconds and tenths, with hours before it where there are any. Words whose
    speaker is not known stand without a name.
    """
    groups = groupby(in_order(result), key=lambda word: word.speaker)
    paragraphs = [_paragraph(speaker, list(words)) for speaker, words in groups]
    return "\n\n".join(paragraphs) + "\n" if paragraphs else ""


def _paragraph(speaker: str | None, words: list[WordRecord]) -> str:
    name = f"{one_line(speaker)}: " if speaker is not None else ""
    return f"[{_clock(words[0].start_s)}] {name}{' '.join(one_line(word.text) for word in words)}"


def _clock(seconds: float) -> str:
    tenths = max(int(seconds * 10), 0)
    minutes, rest = divmod(tenths, 600)
    shown = f"{minutes % 60:02}:{rest // 10:02}.{rest % 10}"
    return f"{minutes // 60}:{shown}" if minutes >= 60 else shown
