"""A result's turns as RTTM, the format of the NIST Rich Transcription evaluations."""

from __future__ import annotations

from volery.export.names import digest
from volery.export.text import one_line
from volery.results import TurnRecord, UnitResult


def to_rttm(result: UnitResult) -> str:
    """One `SPEAKER` line of ten fields for each turn; times in seconds, to the millisecond.

    A key that cannot be a field has its blanks replaced and a digest added, so that no two keys
    come out the same.
    """
    file_id = _field(result.key)
    if file_id != result.key:
        file_id = f"{file_id}-{digest(result.key)}"
    turns = sorted(result.turns, key=lambda turn: turn.start_s)
    return "".join(_line(file_id, turn) for turn in turns if _milliseconds(turn) > 0)


def _line(file_id: str, turn: TurnRecord) -> str:
    seconds = f"{turn.start_s:.3f} {_milliseconds(turn) / 1000:.3f}"
    return f"SPEAKER {file_id} 1 {seconds} <NA> <NA> {_field(turn.speaker)} <NA> <NA>\n"


def _milliseconds(turn: TurnRecord) -> int:
    """The turn's length as the difference of its rounded ends, so that both ends stay true."""
    return round(turn.end_s * 1000) - round(turn.start_s * 1000)


def _field(text: str) -> str:
    return one_line(text).replace(" ", "_") or "_"
