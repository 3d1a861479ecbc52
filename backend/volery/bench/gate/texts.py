"""Two texts one above the other, their differences marked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from rich.cells import cell_len
from rich.text import Text

from volery.bench.gate.runs import Result
from volery.bench.gate.words import Pair, align

_AROUND = 4
"""Words shown before and after a difference."""
_MOST = 400
"""Columns shown of one unit: a unit may be an hour long and differ in every word."""


@dataclass(frozen=True, slots=True)
class Column:
    """Words that stand one above the other; None where the other has none. `same` but for case and punctuation."""

    base: str | None
    candidate: str | None
    same: bool

    @property
    def mark(self) -> str:
        """What became of the base's word: dropped, replaced, nothing; or that there was none."""
        if self.same:
            return " "
        return "+" if self.base is None else "-" if self.candidate is None else "~"


_SKIPPED = Column("…", "…", same=True)
_STYLES = {" ": "", "-": "red", "+": "green", "~": "yellow"}


def columns(base: Result, candidate: Result) -> list[Column]:
    """All words of both as they were written; `twenty-one` stands above `twenty one`."""
    rows: list[list[Pair]] = []
    for pair in align(base.words, candidate.words).pairs:
        if rows and _share_a_word(rows[-1][-1], pair):
            rows[-1].append(pair)
        else:
            rows.append([pair])
    return [
        Column(
            _text(base, [pair.base for pair in row]),
            _text(candidate, [pair.candidate for pair in row]),
            all(pair.same for pair in row),
        )
        for row in rows
    ]


def _share_a_word(one: Pair, other: Pair) -> bool:
    return one.base == other.base is not None or one.candidate == other.candidate is not None


def _text(result: Result, words: Iterable[int | None]) -> str | None:
    told = dict.fromkeys(word for word in words if word is not None)
    return " ".join(result.words[word].text for word in told) if told else None


def near_differences(found: Sequence[Column]) -> list[Column]:
    """The differences with some words around them, `…` where words are left out; nothing where nothing differs."""
    differing = [place for place, column in enumerate(found) if not column.same]
    if not differing:
        return []
    near = {near for place in differing for near in range(place - _AROUND, place + _AROUND + 1)}
    shown: list[Column] = []
    for is_near, row in groupby(range(len(found)), key=lambda place: place in near):
        shown += [found[place] for place in row] if is_near else [_SKIPPED]
    return shown if len(shown) <= _MOST else [*shown[:_MOST], _SKIPPED]


def in_rows(shown: Sequence[Column], width: int) -> Iterator[tuple[Text, Text, Text]]:
    """Three lines for as many columns as `width` cells hold: the base, the candidate, and marks below them."""
    for row in _wrapped(shown, width):
        base, candidate, marks = Text(), Text(), Text()
        for column in row:
            wide = _width(column)
            style = _STYLES[column.mark]
            base.append(_padded(column.base, wide), style)
            candidate.append(_padded(column.candidate, wide), style)
            marks.append(column.mark * wide + " ", style)
        yield base, candidate, marks


def _wrapped(shown: Sequence[Column], width: int) -> Iterator[list[Column]]:
    row: list[Column] = []
    used = 0
    for column in shown:
        if row and used + _width(column) > width:
            yield row
            row, used = [], 0
        row.append(column)
        used += _width(column) + 1
    if row:
        yield row


def _width(column: Column) -> int:
    return max(cell_len(column.base or ""), cell_len(column.candidate or ""))


def _padded(text: str | None, width: int) -> str:
    return f"{'-' * width} " if text is None else text + " " * (width - cell_len(text) + 1)
