"""A result as subtitles: SubRip (SRT) and WebVTT (https://www.w3.org/TR/webvtt1/)."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise, zip_longest

from volery.export.text import in_order, one_line
from volery.results import UnitResult, WordRecord

_LINE_CHARACTERS = 42
_LINES = 2
_LONGEST_MS = 7_000
_SHORTEST_MS = 300
_PAUSE_MS = 1_000


@dataclass(frozen=True, slots=True)
class _Token:
    """Text that fits on a line, and when it is said, in milliseconds."""

    text: str
    start_ms: int
    end_ms: int
    speaker: str | None


@dataclass(frozen=True, slots=True)
class _Cue:
    lines: tuple[str, ...]
    start_ms: int
    end_ms: int
    speaker: str | None


def to_srt(result: UnitResult) -> str:
    """Numbered cues; a change of speaker is told by the name before the first word."""
    cues = _timed(_grouped(_with_names(_tokens(result))))
    return "\n".join(f"{number}\n{_span(cue, ',')}\n{_srt_text(cue)}\n" for number, cue in enumerate(cues, start=1))


def to_vtt(result: UnitResult) -> str:
    """Cues with the speaker as their voice; text and names escaped."""
    cues = _timed(_grouped(_tokens(result)))
    return "".join(["WEBVTT\n", *(f"\n{_span(cue, '.')}\n{_vtt_text(cue)}\n" for cue in cues)])


def _tokens(result: UnitResult) -> Iterator[_Token]:
    for word in in_order(result):
        yield from _split(word)


def _split(word: WordRecord) -> Iterator[_Token]:
    """A word as tokens: one, unless it is too long for a line."""
    pieces = _wrapped(one_line(word.text))
    start, length = word.start_s * 1000, max(word.end_s - word.start_s, 0.0) * 1000
    edges = [round(start + length * place / len(pieces)) for place in range(len(pieces) + 1)]
    for piece, (begin, end) in zip(pieces, pairwise(edges), strict=True):
        yield _Token(piece, begin, end, word.speaker)


def _with_names(tokens: Iterator[_Token]) -> Iterator[_Token]:
    speaker = None
    for token in tokens:
        if token.speaker is not None and token.speaker != speaker:
            for piece in _wrapped(f"{one_line(token.speaker)}:"):
                yield _Token(piece, token.start_ms, token.start_ms, token.speaker)
        speaker = token.speaker
        yield token


def _grouped(tokens: Iterator[_Token]) -> Iterator[list[_Token]]:
    group: list[_Token] = []
    for token in tokens:
        if group and not _fits(group, token):
            yield group
            group = []
        group.append(token)
    if group:
        yield group


def _fits(group: list[_Token], token: _Token) -> bool:
    """Whether a cue can go on with another token and stay readable."""
    return (
        token.speaker == group[-1].speaker
        and token.start_ms - group[-1].end_ms < _PAUSE_MS
        and token.end_ms - group[0].start_ms <= _LONGEST_MS
        and len(_wrapped(_joined([*group, token]))) <= _LINES
    )


def _timed(groups: Iterator[list[_Token]]) -> Iterator[_Cue]:
    """Cues that never overlap: one that the next speaker cuts into ends there."""
    free_ms = 0
    listed = list(groups)
    for group, following in zip_longest(listed, listed[1:]):
        start = max(group[0].start_ms, free_ms)
        end = min(max(token.end_ms for token in group), start + _LONGEST_MS)
        if following is not None:
            end = min(end, following[0].start_ms)
        free_ms = max(end, start + _SHORTEST_MS)
        yield _Cue(tuple(_wrapped(_joined(group))), start, free_ms, group[0].speaker)


def _joined(tokens: list[_Token]) -> str:
    return " ".join(token.text for token in tokens)


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, _LINE_CHARACTERS, break_on_hyphens=False)


def _span(cue: _Cue, point: str) -> str:
    return f"{_clock(cue.start_ms, point)} --> {_clock(cue.end_ms, point)}"


def _clock(milliseconds: int, point: str) -> str:
    seconds, thousandths = divmod(milliseconds, 1000)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{point}{thousandths:03}"


def _srt_text(cue: _Cue) -> str:
    """SRT knows no escapes: only what would read as a time line is written otherwise."""
    return "\n".join(line.replace("-->", "→") for line in cue.lines)


def _vtt_text(cue: _Cue) -> str:
    text = _escaped("\n".join(cue.lines))
    return text if cue.speaker is None else f"<v {_escaped(one_line(cue.speaker))}>{text}"


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
