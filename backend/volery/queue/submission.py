"""Putting units into the queue: what is new, what conflicts, and whose turn is when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from sqlalchemy import RowMapping
from sqlalchemy.ext.asyncio import AsyncConnection

from volery.queue import statements
from volery.queue.dialects import take_turns
from volery.queue.listening import announce
from volery.queue.rows import audio_in, audio_of, values_of
from volery.queue.store import Submitted
from volery.units import KeyConflictError, Unit

T = TypeVar("T")
Values = dict[str, Any]
Line = tuple[str, int]
"""An owner and a priority: units of one line are granted in the order of their submission."""

_CHUNK = 500  # parameters of one statement; every database takes at least a thousand


def chunks(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Parts small enough for one statement's parameters."""
    return (items[start : start + _CHUNK] for start in range(0, len(items), _CHUNK))


async def submit(conn: AsyncConnection, units: Sequence[Unit], *, replace: bool) -> Submitted:
    """Add units in the transaction of `conn`; see `JobStore.submit`."""
    batch = _distinct(units)
    values = {unit.key: values_of(unit) for unit in batch}
    await take_turns(conn, "submission")
    known = await _known(conn, list(values))
    changed = [unit.key for unit in batch if unit.key in known and audio_of(unit) != audio_in(known[unit.key])]
    if changed and not replace:
        raise KeyConflictError(changed)
    new = [key for key in values if key not in known]
    await _add(conn, [values[key] for key in new])
    await _replace(conn, [{**values[key], "unit_id": known[key]["id"]} for key in changed])
    if new or changed:
        await announce(conn)
    return Submitted(new=len(new), replaced=len(changed), unchanged=len(units) - len(new) - len(changed))


def _distinct(units: Sequence[Unit]) -> list[Unit]:
    """Each key once, the first time it comes.

    Raises:
        KeyConflictError: a key comes twice with different audio.
    """
    first: dict[str, Unit] = {}
    for unit in units:
        first.setdefault(unit.key, unit)
    twice = dict.fromkeys(unit.key for unit in units if audio_of(unit) != audio_of(first[unit.key]))
    if twice:
        raise KeyConflictError(list(twice))
    return list(first.values())


async def _known(conn: AsyncConnection, keys: Sequence[str]) -> dict[str, RowMapping]:
    found: dict[str, RowMapping] = {}
    for chunk in chunks(keys):
        rows = await conn.execute(statements.KNOWN_UNITS, {"keys": chunk})
        found.update((row["key"], row) for row in rows.mappings())
    return found


async def _add(conn: AsyncConnection, rows: Sequence[Values]) -> None:
    if rows:
        await conn.execute(statements.ADD_UNIT, await _stamped(conn, rows))


async def _replace(conn: AsyncConnection, rows: Sequence[Values]) -> None:
    if rows:
        stamped = await _stamped(conn, rows)
        await conn.execute(statements.REPLACE_UNIT, sorted(stamped, key=lambda row: row["unit_id"]))
        await end_grants(conn, [row["unit_id"] for row in rows], "replaced")


async def _stamped(conn: AsyncConnection, rows: Sequence[Values]) -> list[Values]:
    ranks = await next_ranks(conn, [(row["owner"], row["priority"]) for row in rows])
    return [{**row, "rank": rank} for row, rank in zip(rows, ranks, strict=True)]


async def next_ranks(conn: AsyncConnection, lines: Sequence[Line]) -> list[int]:
    """Ranks for units that join the queue now, given the line of each.

    Start-time fair queueing (Goyal, Vin and Cheng, 1996) with every unit of length one: a unit
    comes after its owner's last waiting one, and never before what has been granted already. So
    owners who wait together take turns, and an owner who was idle has saved nothing up.
    """
    last: dict[Line, int] = {}
    ranks = []
    for line in lines:
        if line not in last:
            last[line] = await _last_rank(conn, line)
        last[line] += 1
        ranks.append(last[line])
    return ranks


async def _last_rank(conn: AsyncConnection, line: Line) -> int:
    owner, priority = line
    row = (await conn.execute(statements.LAST_RANKS, {"owner": owner, "priority": priority})).one()
    return max(row.owner or 0, row.queue or 0)


async def end_grants(conn: AsyncConnection, unit_ids: Sequence[int], ended_as: str) -> None:
    """Close the running grants of units whose leases no longer hold."""
    for chunk in chunks(unit_ids):
        await conn.execute(statements.END_GRANTS_OF_UNITS, {"ids": chunk, "ending": ended_as})
