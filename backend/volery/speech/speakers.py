"""Words get speakers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from volery.units import Turn, Word

NEAR_S = 0.5
"""How far from a word a turn may be and still give it its speaker, in seconds."""


def with_speakers(words: Sequence[Word], turns: Sequence[Turn]) -> tuple[Word, ...]:
    """Each word with the speaker of the turn it overlaps most; of the nearest turn where it
    overlaps none, up to half a second away; else with none. The earlier turn wins a tie.

    `words` and `turns` are in order of their start.
    """
    given: list[Word] = []
    first = 0
    for word in words:
        while first < len(turns) and turns[first].end_s < word.start_s - NEAR_S:
            first += 1
        given.append(replace(word, speaker=_speaker_of(word, turns, first)))
    return tuple(given)


def _speaker_of(word: Word, turns: Sequence[Turn], first: int) -> str | None:
    best: tuple[float, Turn] | None = None
    for turn in turns[first:]:
        if turn.start_s > word.end_s + NEAR_S:
            break
        closeness = _overlap(word, turn)
        if closeness >= -NEAR_S and (best is None or closeness > best[0]):
            best = closeness, turn
    return best[1].speaker if best else None


def _overlap(word: Word, turn: Turn) -> float:
    """Seconds shared; below zero, seconds apart."""
    return min(word.end_s, turn.end_s) - max(word.start_s, turn.start_s)
