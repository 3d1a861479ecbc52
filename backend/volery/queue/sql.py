"""The job store in SQL, for SQLite and PostgreSQL alike."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from typing import Any

from sqlalchemy import URL, Executable, Row, RowMapping
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from volery.queue import schema, statements
from volery.queue.dialects import take_turns
from volery.queue.engine import create_engine, is_embedded, make_file, parse_url, require_file
from volery.queue.errors import store_errors
from volery.queue.listening import Listener
from volery.queue.pruning import Pruning
from volery.queue.rows import error_text, grant_in, grant_values, lease_in, record_in
from volery.queue.store import Counts, Grant, JobStore, Publication, Submitted, UnitRecord
from volery.queue.submission import chunks, end_grants, next_ranks, submit
from volery.queue.transactions import Transactions
from volery.settings import QueueSettings
from volery.units import Lease, Reason, RefundReason, Unit, UnitState

Rows = Sequence[RowMapping]

_SUSPECTS_SHARE = 4  # a flight of first-degree suspects is this many times smaller
_FAREWELL_SECONDS = 5.0  # a server that answers no more closes no connection either


async def open_store(settings: QueueSettings, *, create: bool = True) -> JobStore:
    """Open the job store that the settings name.

    A SQLite store is upgraded where that is needed and, with `create`, made where there is none;
    any other is only checked.

    Raises:
        NoStoreError: there is no SQLite store, and none is to be made.
        StoreError: it cannot be reached or used, or its schema is not one this code runs on.
    """
    url = parse_url(settings.database_url.get_secret_value())
    if is_embedded(url):
        (make_file if create else require_file)(url)
    engine = create_engine(url)
    store = SqlJobStore(engine, url, settings)
    try:
        if is_embedded(url):
            with store_errors(url):
                await schema.ensure(engine, url, create=create)
        else:
            await store.check()
    except BaseException:
        await store.close()
        raise
    return store


class SqlJobStore:
    """The `JobStore` over SQLAlchemy; see the protocol for what each method promises."""

    def __init__(self, engine: AsyncEngine, url: URL, settings: QueueSettings) -> None:
        self._engine = engine
        self._transactions = Transactions(engine, url)
        self._listener = None if is_embedded(url) else Listener(engine, url)
        self._url = url
        self._embedded = is_embedded(url)
        self._pulling = asyncio.Lock()
        self._charging = {
            "max_attempts": settings.max_attempts,
            "retry_base": settings.retry_base_seconds,
            "retry_max": settings.retry_max_seconds,
        }

    async def check(self) -> None:
        """Raise `StoreError` unless the store can be reached and its schema is one this code runs on."""
        await self._transactions.read(partial(schema.check, url=self._url))

    async def close(self) -> None:
        """Release connections, and wait for no server that is silent."""
        if self._listener is not None:
            await self._listener.close()
        await self._transactions.settle()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if self._embedded else _FAREWELL_SECONDS):
                await self._engine.dispose()

    # Submission

    async def submit(self, units: Sequence[Unit], *, replace: bool = False) -> Submitted:
        """Add units, all or none, in one transaction."""
        return await self._transactions.write_many(partial(submit, units=units, replace=replace))

    async def wait_for_work(self, seconds: float) -> None:
        """Wait until something may have been submitted, at most so long."""
        if self._listener is not None:
            await self._listener.wait(seconds)
        else:
            await asyncio.sleep(seconds)

    # Leasing

    async def pull(self, worker: str, limit: int, lease_seconds: float) -> list[Lease]:
        """Grant up to `limit` units in one statement, whose rows come in no promised order.

        One pull at a time: of two at once neither would see what the other grants. One whose answer
        was lost may yet be granted beside the next; nobody works on such leases, which lapse.
        """
        if limit <= 0:
            return []
        parameters = {
            "process": worker,
            "limit": limit,
            "suspects": max(1, limit // _SUSPECTS_SHARE),
            "lease_seconds": lease_seconds,
        }
        async with self._pulling:
            rows = await self._grant(parameters)
        return [lease_in(row) for row in sorted(rows, key=lambda row: (-row["priority"], row["rank"], row["id"]))]

    async def _grant(self, parameters: Mapping[str, Any]) -> Rows:
        if not self._embedded:
            return await self._transactions.send(statements.PULL_AND_RECORD, parameters)

        async def grant(conn: AsyncConnection) -> Rows:
            rows = (await conn.execute(statements.PULL, parameters)).mappings().all()
            if rows:
                await conn.execute(statements.RECORD_GRANT, [grant_values(row) for row in rows])
            return rows

        return await self._transactions.write(grant)

    async def renew(self, tokens: Sequence[str], lease_seconds: float) -> frozenset[str]:
        """Extend leases; the tokens that still hold."""
        parameters = {"leases": _leases(tokens), "lease_seconds": lease_seconds}
        return _tokens_of(await self._transactions.send(statements.RENEW, parameters))

    async def complete(self, publications: Sequence[Publication]) -> frozenset[str]:
        """Commit results in one transaction; the tokens whose commit held."""
        leases = json.dumps([publication.as_dict() for publication in publications])
        return _tokens_of(await self._end(statements.COMPLETE, "done", {"leases": leases}))

    async def reject(self, token: str, reason: Reason, error: str) -> bool:
        """End a unit whose audio can never work; False where the lease no longer held."""
        parameters = {"leases": _leases([token]), "why": reason.value, "message": error_text(error)}
        return bool(await self._end(statements.REJECT, "rejected", parameters))

    async def fail(self, token: str, reason: Reason, error: str) -> UnitState | None:
        """Charge one attempt; None where the lease no longer held."""
        parameters = {"leases": _leases([token]), "why": reason.value, "message": error_text(error), **self._charging}
        rows = await self._end(statements.FAIL, "failed", parameters)
        return UnitState(rows[0]["state"]) if rows else None

    async def refund(self, tokens: Sequence[str], reason: RefundReason) -> frozenset[str]:
        """Give leases back without charge; the tokens that still held."""
        ended_as = f"refund:{reason.value}"
        if reason is not RefundReason.QUARANTINE:
            return _tokens_of(await self._end(statements.REFUND, ended_as, {"leases": _leases(tokens)}))

        async def give_back(conn: AsyncConnection) -> frozenset[str]:
            await _held(conn, statements.LOCK_HELD, tokens)  # in turn, for both statements together
            held = await _held(conn, statements.REFUND_LATER_QUARANTINE, tokens, self._charging)
            held |= await _held(conn, statements.REFUND_FIRST_QUARANTINE, tokens)
            await _end_grants(conn, held, ended_as)
            return held

        return await self._transactions.write(give_back)

    async def _end(self, ending: statements.Ending, ended_as: str, parameters: dict[str, Any]) -> Rows:
        """End leases and their grants; what the statement names of those that held."""
        if not self._embedded:
            return await self._transactions.send(ending.at_once, {**parameters, "ending": ended_as})

        async def end(conn: AsyncConnection) -> Rows:
            rows = (await conn.execute(ending.units, parameters)).mappings().all()
            await _end_grants(conn, _tokens_of(rows), ended_as)
            return rows

        return await self._transactions.write(end)

    async def reap(self) -> int:
        """End every lapsed lease and return its unit to the queue; how many there were."""

        async def end(conn: AsyncConnection) -> int:
            lapsed = (await conn.scalars(statements.REAP_ALONE, self._charging)).all()
            lapsed = [*lapsed, *(await conn.scalars(statements.REAP_SHARED)).all()]
            await _end_grants(conn, frozenset(lapsed), "expired")
            return len(lapsed)

        return await self._transactions.write(end)

    # The operator's

    async def requeue(self, keys: Sequence[str] = (), *, states: Sequence[UnitState] = ()) -> int:
        """Make finished units ready again, each at a new place in the queue; how many there were."""
        if not keys and not states:
            return 0
        finished = [state.value for state in states or UnitState if state.is_final]
        wanted = {"states": finished}

        async def again(conn: AsyncConnection) -> int:
            await take_turns(conn, "submission")
            rows = await _selected(conn, statements.FINISHED, statements.FINISHED_NUMBERED, keys, wanted)
            ranks = await next_ranks(conn, [(row.owner, row.priority) for row in rows])
            if rows:
                numbered = [{"unit_id": row.id, "rank": rank} for row, rank in zip(rows, ranks, strict=True)]
                await conn.execute(statements.REQUEUE_UNIT, numbered)
            return len(rows)

        return await self._transactions.write_many(again)

    async def cancel(self, keys: Sequence[str] = (), *, all_unfinished: bool = False) -> int:
        """Cancel unfinished units and end their running leases; how many there were."""
        if not keys and not all_unfinished:
            return 0
        named = () if all_unfinished else keys

        async def end(conn: AsyncConnection) -> int:
            rows = await _selected(conn, statements.CANCEL_ALL, statements.CANCEL_NUMBERED, named, {})
            await end_grants(conn, [row.id for row in rows], "cancelled")
            return len(rows)

        return await self._transactions.write_many(end)

    def pruning(self) -> Pruning:
        """What may go, and how to let it go."""
        return Pruning(self._transactions)

    # Reading

    async def counts(self) -> Counts:
        """Units by state and the age of the oldest available one."""

        async def count(conn: AsyncConnection) -> tuple[Sequence[Any], Any]:
            states = (await conn.execute(statements.COUNT_BY_STATE)).all()
            return states, (await conn.execute(statements.COUNT_AVAILABLE)).one()

        states, available = await self._transactions.read(count)
        by_state = {UnitState(row.state): row.units for row in states}
        return Counts(
            by_state=by_state,
            available=available.units,
            backing_off=by_state.get(UnitState.READY, 0) - available.units,
            oldest_available_s=available.oldest_s,
        )

    async def get(self, key: str) -> UnitRecord | None:
        """One unit."""
        rows = await self._rows(statements.RECORD, {"key": key})
        return record_in(rows[0]) if rows else None

    async def latest(self, states: Sequence[UnitState], limit: int) -> list[UnitRecord]:
        """The units that came to one of these ends last, the latest first."""
        wanted = {"states": [state.value for state in states], "limit": limit}
        return [record_in(row) for row in await self._rows(statements.RECORDS_LATEST, wanted)]

    async def records(self, *, states: Sequence[UnitState] = (), keys: Sequence[str] = ()) -> AsyncIterator[UnitRecord]:
        """Units in order of submission, streamed in pages."""
        async for page in self._chosen_pages(states, keys) if states or keys else self._pages():
            for row in page:
                yield record_in(row)

    async def _pages(self) -> AsyncIterator[Rows]:
        # Page by page: a consumer that takes its time must not keep a transaction open.
        after = 0
        while page := await self._rows(statements.RECORDS_AFTER, {"after": after}):
            yield page
            after = page[-1]["id"]

    async def _chosen_pages(self, states: Sequence[UnitState], keys: Sequence[str]) -> AsyncIterator[Rows]:
        # Their numbers first: no index gives units of several states, or keys, in order of submission.
        wanted = {"states": [state.value for state in states or UnitState]}
        rows = await self._transactions.read(
            lambda conn: _selected(conn, statements.CHOSEN, statements.CHOSEN_NUMBERED, keys, wanted)
        )
        for ids in chunks([row.id for row in rows]):
            page = await self._rows(statements.RECORDS_NUMBERED, {"ids": ids})
            yield [row for row in page if row["state"] in wanted["states"]]

    async def grants(self, key: str | None = None) -> list[Grant]:
        """Grants in order, of one unit or of all."""
        statement = statements.GRANTS if key is None else statements.GRANTS_OF_UNIT
        return [grant_in(row) for row in await self._rows(statement, {} if key is None else {"key": key})]

    async def _rows(self, statement: Executable, parameters: dict[str, Any]) -> Rows:
        async def select(conn: AsyncConnection) -> Rows:
            return (await conn.execute(statement, parameters)).mappings().all()

        return await self._transactions.read(select)


def _leases(tokens: Sequence[str]) -> str:
    """The parameter `leases` of a holder's statement."""
    return json.dumps([{"token": token} for token in tokens])


def _tokens_of(rows: Rows) -> frozenset[str]:
    return frozenset(row["token"] for row in rows)


async def _held(
    conn: AsyncConnection, statement: Executable, tokens: Sequence[str], parameters: dict[str, Any] | None = None
) -> frozenset[str]:
    """Run a holder's statement; the tokens whose leases held."""
    return frozenset((await conn.scalars(statement, {"leases": _leases(tokens), **(parameters or {})})).all())


async def _end_grants(conn: AsyncConnection, tokens: frozenset[str], ended_as: str) -> None:
    if tokens:
        await conn.execute(statements.END_GRANTS, {"leases": _leases(sorted(tokens)), "ending": ended_as})


async def _selected(
    conn: AsyncConnection, every: Executable, numbered: Executable, keys: Sequence[str], parameters: dict[str, Any]
) -> list[Row[Any]]:
    """Rows of a statement about all units, or of its sibling about numbered ones, in order of submission."""
    if not keys:
        rows = (await conn.execute(every, parameters)).all()
    else:
        rows = []
        for ids in chunks(await _numbers(conn, list(dict.fromkeys(keys)))):
            rows += (await conn.execute(numbered, {"ids": ids, **parameters})).all()
    return sorted(rows, key=lambda row: row.id)


async def _numbers(conn: AsyncConnection, keys: Sequence[str]) -> list[int]:
    """The ids of named units in their order, in which everybody locks them."""
    found: list[int] = []
    for chunk in chunks(keys):
        found += (await conn.scalars(statements.NUMBERS, {"keys": chunk})).all()
    return sorted(found)
