"""What may go: results that no unit names, finished units, and grants that nobody asks after any more."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    CursorResult,
    Double,
    Executable,
    FromClause,
    Text,
    and_,
    bindparam,
    delete,
    exists,
    func,
    or_,
    select,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from volery.queue.dialects import now
from volery.queue.submission import chunks
from volery.queue.tables import grants, units
from volery.queue.transactions import Transactions
from volery.units import UnitState

_PAGE = 500
_FINAL = [state.value for state in UnitState if state.is_final]
_TOKENS = bindparam("tokens", expanding=True, type_=Text)
_NAMES = bindparam("names", expanding=True, type_=Text)
_IDS = bindparam("ids", expanding=True, type_=BigInteger)
_AFTER = bindparam("after", type_=BigInteger)
_CUTOFF = now() - bindparam("age", type_=Double)

_own, _later, _waiting = grants.alias("own"), grants.alias("later"), units.alias("waiting")


def _tells_time(grant: FromClause) -> Any:
    """Whether a grant has the highest rank at its priority, the queue's virtual time, while units there wait."""
    latest = select(func.max(_later.c.rank)).where(_later.c.priority == grant.c.priority).correlate(grant)
    waits = exists().where(_waiting.c.state == UnitState.READY.value, _waiting.c.priority == grant.c.priority)
    return and_(grant.c.rank == latest.scalar_subquery(), waits.correlate(grant))


_OLD = and_(
    units.c.state.in_(_FINAL),
    units.c.finished_at < _CUTOFF,
    or_(units.c.artifact.is_(None), bindparam("done", type_=Boolean)),
    ~exists().where(_own.c.unit_id == units.c.id, _tells_time(_own)).correlate(units),
)

GRANTS_OF_TOKENS = select(grants.c.token, grants.c.ended_at).where(grants.c.token.in_(_TOKENS))
NAMED_BY_HOLDERS = select(units.c.artifact).where(units.c.token.in_(_TOKENS), units.c.artifact.is_not(None))
NAMED = select(units.c.artifact).where(units.c.artifact.in_(_NAMES))
NAMED_BY_OTHERS = NAMED.where(units.c.id.not_in(_IDS))

OLD_UNITS = (
    select(units.c.id, units.c.key, units.c.artifact).where(_OLD, units.c.id > _AFTER).order_by(units.c.id).limit(_PAGE)
)
STILL_OLD = select(units.c.id).where(units.c.id.in_(_IDS), _OLD).order_by(units.c.id).with_for_update()
COUNT_GRANTS = select(func.count()).select_from(grants).where(grants.c.unit_id.in_(_IDS))
DELETE_GRANTS_OF_UNITS = delete(grants).where(grants.c.unit_id.in_(_IDS))
DELETE_UNITS = delete(units).where(units.c.id.in_(_IDS))

# Of a unit that stays, its latest grant stays as well: the result is named after it.
OLD_GRANTS = (
    select(grants.c.id)
    .join(units)
    .where(
        grants.c.ended_at < _CUTOFF,
        or_(units.c.token.is_(None), units.c.token != grants.c.token),
        grants.c.id > _AFTER,
        ~_OLD,
        ~_tells_time(grants),
    )
    .order_by(grants.c.id)
    .limit(_PAGE)
)
DELETE_GRANTS = delete(grants).where(grants.c.id.in_(_IDS))


class Standing(Enum):
    """What the store knows of a result."""

    NAMED = auto()
    """It is the result of a unit."""
    RUNNING = auto()
    """The lease that it was written under has not ended: it may become the result of a unit."""
    UNNAMED = auto()
    """The lease that it was written under ended, and no unit names it: it never will be a result."""
    UNKNOWN = auto()
    """No unit names it, and the store has no record of the lease that it was written under."""


@dataclass(frozen=True, slots=True)
class OldUnit:
    """A finished unit that may be pruned, and the name of its result where it has one."""

    id: int
    key: str
    artifact: str | None


@dataclass(frozen=True, slots=True)
class Age:
    """How long ago units and grants must have ended to be old, and whether units with results may be."""

    seconds: float
    done: bool = False


@dataclass(frozen=True, slots=True)
class Pruned:
    """How many rows went."""

    units: int = 0
    grants: int = 0


class Pruning:
    """Asks after and deletes what is no longer needed, a page at a time. Errors are `StoreError`s."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def standings(self, results: Mapping[str, str]) -> dict[str, Standing]:
        """What is known of results, by the lease token that each is named after.

        Whatever was written before this is called is judged rightly: a lease is on record before
        anything is written under it, and what is committed is seen once its lease was seen to have ended.
        """
        found: dict[str, Standing] = {}
        for tokens in chunks(list(results)):
            named = {token: results[token] for token in tokens}
            found |= await self._transactions.read(partial(_standings, results=named))
        return found

    async def old_units(self, age: Age) -> AsyncIterator[list[OldUnit]]:
        """Finished units that are old, in pages."""
        async for page in self._pages(OLD_UNITS, age):
            yield [OldUnit(row.id, row.key, row.artifact) for row in page]

    async def results_of(self, old: Sequence[OldUnit]) -> list[str]:
        """The results that would go with the units of one page: those that no other unit names."""
        named = {unit.artifact for unit in old if unit.artifact is not None}
        parameters = {"names": sorted(named), "ids": [unit.id for unit in old]}

        async def others(conn: AsyncConnection) -> set[str]:
            return set((await conn.scalars(NAMED_BY_OTHERS, parameters)).all())

        return sorted(named - await self._transactions.read(others)) if named else []

    async def delete_units(self, old: Sequence[OldUnit], age: Age) -> Pruned:
        """Delete those of one page that are still old, and their grants; remove their results before."""
        parameters = {"ids": [unit.id for unit in old], **_parameters(age)}

        async def prune(conn: AsyncConnection) -> Pruned:
            ids = (await conn.scalars(STILL_OLD, parameters)).all()
            return Pruned(
                grants=await _count(conn, DELETE_GRANTS_OF_UNITS, ids), units=await _count(conn, DELETE_UNITS, ids)
            )

        return await self._transactions.write(prune)

    async def grants_of(self, old: Sequence[OldUnit]) -> int:
        """How many grants would go with the units of one page."""
        ids = {"ids": [unit.id for unit in old]}

        async def count(conn: AsyncConnection) -> int:
            return int((await conn.scalars(COUNT_GRANTS, ids)).one())

        return await self._transactions.read(count)

    async def old_grants(self, age: Age) -> AsyncIterator[list[int]]:
        """The numbers of old grants of units that are not old, in pages."""
        async for page in self._pages(OLD_GRANTS, age):
            yield [row.id for row in page]

    async def delete_grants(self, ids: Sequence[int]) -> int:
        """Delete one page of grants; how many there were."""
        return await self._transactions.write(lambda conn: _count(conn, DELETE_GRANTS, ids))

    async def _pages(self, statement: Executable, age: Age) -> AsyncIterator[Sequence[Any]]:
        after = 0
        while page := await self._transactions.read(_page(statement, {"after": after, **_parameters(age)})):
            yield page
            after = page[-1].id


def _page(statement: Executable, parameters: dict[str, Any]) -> Any:
    async def read(conn: AsyncConnection) -> Sequence[Any]:
        return (await conn.execute(statement, parameters)).all()

    return read


def _parameters(age: Age) -> dict[str, Any]:
    return {"age": age.seconds, "done": age.done}


async def _standings(conn: AsyncConnection, results: Mapping[str, str]) -> dict[str, Standing]:
    tokens = {"tokens": list(results)}
    # In this order: a lease that ended with a commit is seen to have ended only when its unit can be seen to name it.
    ended = {row.token: row.ended_at is not None for row in await conn.execute(GRANTS_OF_TOKENS, tokens)}
    named = set((await conn.scalars(NAMED_BY_HOLDERS, tokens)).all())
    if doubtful := [name for token, name in results.items() if name not in named and ended.get(token, True)]:
        named |= set((await conn.scalars(NAMED, {"names": doubtful})).all())
    return {token: _standing(name in named, ended.get(token)) for token, name in results.items()}


def _standing(named: bool, ended: bool | None) -> Standing:
    if named:
        return Standing.NAMED
    return {None: Standing.UNKNOWN, True: Standing.UNNAMED, False: Standing.RUNNING}[ended]


async def _count(conn: AsyncConnection, statement: Executable, ids: Sequence[int]) -> int:
    """Run a statement on numbered rows; how many it changed."""
    result = await conn.execute(statement, {"ids": ids})
    return result.rowcount if isinstance(result, CursorResult) else 0
