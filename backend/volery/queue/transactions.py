"""Transactions that begin again where nothing was committed, and that never wait for ever.

On PostgreSQL a statement that is sent alone commits by itself, in one round trip instead of three.
On SQLite work on a few units that was begun is finished, whoever stops waiting for it: a statement
that is abandoned in the middle may keep the file locked for as long as the process lives.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from sqlalchemy import URL, Executable, RowMapping
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from volery.queue.dialects import take_time
from volery.queue.engine import committing, is_embedded, writing
from volery.queue.errors import store_errors

T = TypeVar("T")
Work = Callable[[AsyncConnection], Awaitable[T]]
"""What is done in a transaction. It may be done again, on another connection, where the first came to nothing."""

_TRIES = 4
_PATIENCE_SECONDS = 35.0  # a little longer than the server's statement timeout: a silent network has none
_UNDONE = ("40P01", "40001")  # deadlock detected, serialization failure


def _was_undone(error: DBAPIError) -> bool:
    """Whether the server undid the work."""
    return getattr(error.orig, "sqlstate", None) in _UNDONE


def _came_to_nothing(error: DBAPIError) -> bool:
    """Whether the server undid the work, or the connection broke before any commit was sent."""
    return error.connection_invalidated or _was_undone(error)


class Transactions:
    """Runs work in transactions on one store.

    Errors are `StoreError`s. Where the connection breaks in a commit, or in a statement that
    commits by itself, nobody knows whether it took, and the error is passed on: a lease holder
    who asks again learns it from his token.
    """

    def __init__(self, engine: AsyncEngine, url: URL) -> None:
        self._writer = writing(engine)
        self._committer = committing(self._writer)
        self._reader = committing(engine)
        self._url = url
        self._finishes = is_embedded(url)
        self._patience = None if self._finishes else _PATIENCE_SECONDS
        self._begun: set[asyncio.Task[Any]] = set()

    async def read(self, work: Work[T]) -> T:
        """Run work that changes nothing."""
        return await self._run(self._reader, work)

    async def write(self, work: Work[T]) -> T:
        """Run work on a few units."""
        return await self._run(self._writer, work)

    async def write_many(self, work: Work[T]) -> T:
        """Run work on any number of units, however long it takes, or until it is cancelled."""

        async def unhurried(conn: AsyncConnection) -> T:
            await take_time(conn)
            return await work(conn)

        return await self._try(self._writer, unhurried, None, _came_to_nothing)

    async def send(self, statement: Executable, parameters: Mapping[str, Any]) -> Sequence[RowMapping]:
        """Run one statement on a few units, which commits by itself; its rows."""

        async def execute(conn: AsyncConnection) -> Sequence[RowMapping]:
            return (await conn.execute(statement, parameters)).mappings().all()

        return await self._run(self._committer, execute, may_repeat=_was_undone)

    async def settle(self) -> None:
        """Wait for work that nobody waits for any more."""
        if self._begun:
            await asyncio.wait(self._begun)

    async def _run(
        self, engine: AsyncEngine, work: Work[T], *, may_repeat: Callable[[DBAPIError], bool] = _came_to_nothing
    ) -> T:
        trying = self._try(engine, work, self._patience, may_repeat)
        return await (self._finish(trying) if self._finishes else trying)

    async def _finish(self, trying: Coroutine[Any, Any, T]) -> T:
        begun = asyncio.create_task(trying)
        self._begun.add(begun)
        begun.add_done_callback(self._begun.discard)
        return await asyncio.shield(begun)

    async def _try(
        self,
        engine: AsyncEngine,
        work: Work[T],
        patience: float | None,
        may_repeat: Callable[[DBAPIError], bool],
    ) -> T:
        with store_errors(self._url):
            async with asyncio.timeout(patience):
                for left in reversed(range(_TRIES)):
                    async with engine.connect() as conn:
                        try:
                            result = await work(conn)
                        except DBAPIError as error:
                            if left and may_repeat(error):
                                continue
                            raise
                        await conn.commit()
                        return result
        raise AssertionError("the last try returns or raises")
