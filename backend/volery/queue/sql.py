"""The job store in SQL, for SQLite and PostgreSQL alike."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy import URL, Executable, Row, RowMapping
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from volery.queue import schema, statements
from volery.queue.dialects import take_turns
from volery.queue.engine import create_engine, is_embedded, make_file, parse_url, store_errors, writing
from volery.queue.rows import error_text, grant_in, grant_values, lease_in, record_in
from volery.queue.store import Counts, Grant, JobStore, Publication, Submitted, UnitRecord
from volery.queue.submission import chunks, end_grants, next_ranks, submit
from volery.settings import QueueSettings
from volery.units import Lease, Reason, RefundReason, Unit, UnitState

Rows = Sequence[RowMapping]

_SUSPECTS_SHARE = 4  # a flight of first-degree suspects is this many times smaller


async def open_store(settings: QueueSettings) -> JobStore:
    """Open the job store that the settings name.

    A SQLite store is created and upgraded where that is needed; any other is only checked.

    Raises:
        StoreError: it cannot be reached or used, or its schema is not one this code runs on.
    """
    url = parse_url(settings.database_url.get_secret_value())
    if is_embedded(url):
        make_file(url)
    engine = create_engine(url)
    store = SqlJobStore(engine, url, settings)
    try:
        if is_embedded(url):
            with store_errors(url):
                await schema.ensure(engine, url)
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
        self._writer = writing(engine)
        self._url = url
        self._charging = {
            "max_attempts": settings.max_attempts,
            "retry_base": settings.retry_base_seconds,
            "retry_max": settings.retry_max_seconds,
        }

    @asynccontextmanager
    async def _writing(self) -> AsyncIterator[AsyncConnection]:
        with store_errors(self._url):
            async with self._writer.begin() as conn:
                yield conn

    @asynccontextmanager
    async def _reading(self) -> AsyncIterator[AsyncConnection]:
        with store_errors(self._url):
            async with self._engine.connect() as conn:
                yield conn

    async def check(self) -> None:
        """Raise `StoreError` unless the store can be reached and its schema is one this code runs on."""
        async with self._reading() as conn:
            await schema.check(conn, self._url)

    async def close(self) -> None:
        """Release connections."""
        await self._engine.dispose()

    # Submission

    async def submit(self, units: Sequence[Unit], *, replace: bool = False) -> Submitted:
        """Add units, all or none, in one transaction."""
        async with self._writing() as conn:
            return await submit(conn, units, replace=replace)

    # Leasing

    async def pull(self, worker: str, limit: int, lease_seconds: float) -> list[Lease]:
        """Grant up to `limit` units in one statement, whose rows come in no promised order."""
        if limit < 1:
            return []
        parameters = {
            "process": worker,
            "limit": limit,
            "suspects": max(1, limit // _SUSPECTS_SHARE),
            "lease_seconds": lease_seconds,
        }
        async with self._writing() as conn:
            await take_turns(conn, f"worker {worker}")
            rows = (await conn.execute(statements.PULL, parameters)).mappings().all()
            rows = sorted(rows, key=lambda row: (-row["priority"], row["rank"], row["id"]))
            if rows:
                await conn.execute(statements.RECORD_GRANT, [grant_values(row) for row in rows])
        return [lease_in(row) for row in rows]

    async def renew(self, tokens: Sequence[str], lease_seconds: float) -> frozenset[str]:
        """Extend leases; the tokens that still hold."""
        async with self._writing() as conn:
            return await _held(conn, statements.RENEW, tokens, {"lease_seconds": lease_seconds})

    async def complete(self, publications: Sequence[Publication]) -> frozenset[str]:
        """Commit results in one transaction; the tokens whose commit held."""
        done: frozenset[str] = frozenset()
        async with self._writing() as conn:
            for publication in publications:
                values = {
                    "artifact_name": publication.artifact,
                    "class_": publication.result_class.value,
                    "seconds": publication.duration_s,
                }
                done |= await _held(conn, statements.COMPLETE, [publication.token], values)
            await _end(conn, done, "done")
        return done

    async def reject(self, token: str, reason: Reason, error: str) -> bool:
        """End a unit whose audio can never work; False where the lease no longer held."""
        values = {"why": reason.value, "message": error_text(error)}
        async with self._writing() as conn:
            held = await _held(conn, statements.REJECT, [token], values)
            await _end(conn, held, "rejected")
        return bool(held)

    async def fail(self, token: str, reason: Reason, error: str) -> UnitState | None:
        """Charge one attempt; None where the lease no longer held."""
        values = {"tokens": [token], "why": reason.value, "message": error_text(error), **self._charging}
        async with self._writing() as conn:
            row = (await conn.execute(statements.FAIL, values)).one_or_none()
            if row is None:
                return None
            await _end(conn, frozenset([token]), "failed")
        return UnitState(row.state)

    async def refund(self, tokens: Sequence[str], reason: RefundReason) -> frozenset[str]:
        """Give leases back without charge; the tokens that still held."""
        async with self._writing() as conn:
            if reason is RefundReason.QUARANTINE:
                held = await _held(conn, statements.REFUND_LATER_QUARANTINE, tokens, self._charging)
                held |= await _held(conn, statements.REFUND_FIRST_QUARANTINE, tokens)
            else:
                held = await _held(conn, statements.REFUND, tokens)
            await _end(conn, held, f"refund:{reason.value}")
        return held

    async def reap(self) -> int:
        """End every lapsed lease and return its unit to the queue; how many there were."""
        async with self._writing() as conn:
            lapsed = (await conn.scalars(statements.REAP_ALONE, self._charging)).all()
            lapsed = [*lapsed, *(await conn.scalars(statements.REAP_SHARED)).all()]
            await _end(conn, frozenset(lapsed), "expired")
        return len(lapsed)

    # The operator's

    async def requeue(self, keys: Sequence[str] = (), *, states: Sequence[UnitState] = ()) -> int:
        """Make finished units ready again, each at a new place in the queue; how many there were."""
        if not keys and not states:
            return 0
        finished = [state.value for state in states or UnitState if state.is_final]
        async with self._writing() as conn:
            await take_turns(conn, "submission")
            rows = await _selected(conn, statements.FINISHED, statements.FINISHED_NAMED, keys, {"states": finished})
            ranks = await next_ranks(conn, [(row.owner, row.priority) for row in rows])
            if rows:
                numbered = [{"unit_id": row.id, "rank": rank} for row, rank in zip(rows, ranks, strict=True)]
                await conn.execute(statements.REQUEUE_UNIT, numbered)
        return len(rows)

    async def cancel(self, keys: Sequence[str] = (), *, all_unfinished: bool = False) -> int:
        """Cancel unfinished units and end their running leases; how many there were."""
        if not keys and not all_unfinished:
            return 0
        named = () if all_unfinished else keys
        async with self._writing() as conn:
            rows = await _selected(conn, statements.CANCEL_ALL, statements.CANCEL_NAMED, named, {})
            await end_grants(conn, [row.id for row in rows], "cancelled")
        return len(rows)

    # Reading

    async def counts(self) -> Counts:
        """Units by state and the age of the oldest available one."""
        async with self._reading() as conn:
            states = (await conn.execute(statements.COUNT_BY_STATE)).all()
            available = (await conn.execute(statements.COUNT_AVAILABLE)).one()
        by_state = {UnitState(row.state): row.units for row in states}
        return Counts(
            by_state=by_state,
            available=available.units,
            backing_off=by_state.get(UnitState.READY, 0) - available.units,
            oldest_available_s=available.oldest_s,
        )

    async def get(self, key: str) -> UnitRecord | None:
        """One unit."""
        async with self._reading() as conn:
            row = (await conn.execute(statements.RECORD, {"key": key})).mappings().one_or_none()
        return record_in(row) if row else None

    async def records(self, *, states: Sequence[UnitState] = (), keys: Sequence[str] = ()) -> AsyncIterator[UnitRecord]:
        """Units in order of submission, streamed in pages."""
        async for page in self._chosen_pages(states, keys) if states or keys else self._pages():
            for row in page:
                yield record_in(row)

    async def _pages(self) -> AsyncIterator[Rows]:
        # Page by page: a consumer that takes its time must not keep a transaction open.
        after = 0
        while page := await self._page(statements.RECORDS_AFTER, {"after": after}):
            yield page
            after = page[-1]["id"]

    async def _chosen_pages(self, states: Sequence[UnitState], keys: Sequence[str]) -> AsyncIterator[Rows]:
        # Their numbers first: no index gives units of several states, or keys, in order of submission.
        wanted = {"states": [state.value for state in states or UnitState]}
        async with self._reading() as conn:
            rows = await _selected(conn, statements.CHOSEN, statements.CHOSEN_NAMED, keys, wanted)
        for ids in chunks(sorted(row.id for row in rows)):
            page = await self._page(statements.RECORDS_NUMBERED, {"ids": ids})
            yield [row for row in page if row["state"] in wanted["states"]]

    async def _page(self, statement: Executable, parameters: dict[str, Any]) -> Rows:
        async with self._reading() as conn:
            return (await conn.execute(statement, parameters)).mappings().all()

    async def grants(self, key: str | None = None) -> list[Grant]:
        """Grants in order, of one unit or of all."""
        statement = statements.GRANTS if key is None else statements.GRANTS_OF_UNIT
        async with self._reading() as conn:
            rows = await conn.execute(statement, {} if key is None else {"key": key})
            return [grant_in(row) for row in rows.mappings()]


async def _held(
    conn: AsyncConnection, statement: Executable, tokens: Sequence[str], parameters: dict[str, Any] | None = None
) -> frozenset[str]:
    """Run a holder's statement; the tokens whose leases held."""
    return frozenset((await conn.scalars(statement, {"tokens": tokens, **(parameters or {})})).all())


async def _end(conn: AsyncConnection, tokens: frozenset[str], ended_as: str) -> None:
    if tokens:
        await conn.execute(statements.END_GRANTS, {"tokens": list(tokens), "ending": ended_as})


async def _selected(
    conn: AsyncConnection, every: Executable, named: Executable, keys: Sequence[str], parameters: dict[str, Any]
) -> list[Row[Any]]:
    """Rows of a statement about all units, or of its sibling about those named."""
    if not keys:
        return list((await conn.execute(every, parameters)).all())
    named_once = list(dict.fromkeys(keys))
    rows = [await conn.execute(named, {"keys": chunk, **parameters}) for chunk in chunks(named_once)]
    return [row for result in rows for row in result.all()]
