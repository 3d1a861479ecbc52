"""Rows of the tables as the dataclasses that leave the room, and back."""

from __future__ import annotations

import math
from typing import Any

from sqlalchemy import RowMapping

from volery.queue.statements import GRANT_NAMES
from volery.queue.store import Grant, UnitRecord
from volery.units import Clip, Lease, ResultClass, StoreError, Unit, UnitOptions, UnitState

Audio = tuple[str, float, float | None]
"""What makes two submissions of a key the same: URI, clip start and clip end. No clip starts at 0."""

_LONGEST_ERROR = 4000  # characters kept of an error message
_INTEGERS = {"priority": 31, "num_speakers": 31, "place": 63, "privacy_generation": 63}  # bits of the columns


def audio_of(unit: Unit) -> Audio:
    """The audio of a unit that is submitted."""
    clip = unit.clip or Clip()
    return unit.audio_uri, clip.start_s, clip.end_s


def audio_in(row: RowMapping) -> Audio:
    """The audio of a unit in the store."""
    return row["audio_uri"], row["clip_start_s"] or 0.0, row["clip_end_s"]


def values_of(unit: Unit) -> dict[str, Any]:
    """What the submitter says about a unit, by column.

    Raises:
        StoreError: a value that no database keeps as it is.
    """
    values = {
        "key": unit.key,
        "owner": unit.owner,
        "priority": unit.priority,
        "audio_uri": unit.audio_uri,
        "clip_start_s": unit.clip.start_s if unit.clip else None,
        "clip_end_s": unit.clip.end_s if unit.clip else None,
        "num_speakers": unit.options.num_speakers,
        "language": unit.options.language,
        "stream": unit.stream,
        "place": unit.place,
        "privacy_generation": unit.privacy_generation,
    }
    for name, value in values.items():
        if not _storable(name, value):
            raise StoreError(f"unit {unit.key!r}: the store cannot keep {name} {value!r}; correct it and submit again")
    return values


def _storable(name: str, value: Any) -> bool:
    if isinstance(value, str):
        return value == storable_text(value)
    if isinstance(value, float):
        return math.isfinite(value)  # SQLite would turn "not a number" into no clip at all
    return value is None or name not in _INTEGERS or abs(value) < 1 << _INTEGERS[name]


def storable_text(text: str) -> str:
    """Text as every database takes it: no NUL, and lone surrogates (of odd file names) escaped."""
    return text.replace("\0", "\\x00").encode(errors="backslashreplace").decode()


def error_text(error: str) -> str:
    """An error message as it is stored, cut where it is very long."""
    return storable_text(error)[:_LONGEST_ERROR]


def unit_in(row: RowMapping) -> Unit:
    """The unit as it was submitted."""
    start, end = row["clip_start_s"], row["clip_end_s"]
    return Unit(
        key=row["key"],
        audio_uri=row["audio_uri"],
        owner=row["owner"],
        priority=row["priority"],
        clip=None if start is None else Clip(start, end),
        options=UnitOptions(row["num_speakers"], row["language"]),
        stream=row["stream"],
        place=row["place"],
        privacy_generation=row["privacy_generation"],
    )


def lease_in(row: RowMapping) -> Lease:
    """The lease that a row was just granted under."""
    return Lease(
        token=row["token"],
        unit=unit_in(row),
        expires_at=row["expires_at"],
        attempts=row["attempts"],
        alone=row["alone"],
    )


def grant_values(row: RowMapping) -> dict[str, Any]:
    """The row of the grants table for a unit that was just granted."""
    return {"unit_id": row["id"], **{name: row[name] for name in GRANT_NAMES}}


def record_in(row: RowMapping) -> UnitRecord:
    """Everything about a unit."""
    return UnitRecord(
        unit=unit_in(row),
        state=UnitState(row["state"]),
        attempts=row["attempts"],
        reason=row["reason"],
        error=row["error"],
        result_class=ResultClass(row["result_class"]) if row["result_class"] else None,
        artifact=row["artifact"],
        duration_s=row["duration_s"],
        submitted_at=row["submitted_at"],
        available_at=row["available_at"],
        finished_at=row["finished_at"],
    )


def grant_in(row: RowMapping) -> Grant:
    """One row of the grants table with its unit's key."""
    return Grant(
        token=row["token"],
        key=row["key"],
        worker=row["worker"],
        granted_at=row["granted_at"],
        ended_at=row["ended_at"],
        ended_as=row["ended_as"],
        alone=row["alone"],
    )
