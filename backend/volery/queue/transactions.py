"""Transactions that begin again where nothing was committed, and that never wait for ever.

On PostgreSQL a statement that is sent alone commits by itself, in one round trip instead of three.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
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
        self._patience = None if is_embedded(url) else _PATIENCE_SECONDS

    async def read(self, work: Work[T]) -> T:
        """Run work that changes nothing."""
        return await self._run(self._reader, work, self._patience)

    async def write(self, work: Work[T]) -> T:
        """Run work on a few units."""
        return await self._run(self._writer, work, self._patience)

    async def write_many(self, work: Work[T]) -> T:
        """Run work on any number of units, however long it takes."""

        async def unhurried(conn: AsyncConnection) -> T:
            await take_time(conn)
            return await work(conn)

        return await self._run(self._writer, unhurried, None)

    async def send(self, statement: Executable, parameters: Mapping[str, Any]) -> Sequence[RowMapping]:
        """Run one statement on a few units, which commits by itself; its rows."""

        async def execute(conn: AsyncConnection) -> Sequence[RowMapping]:
            return (await conn.execute(statement, parameters)).mappings().all()

        return await self._run(self._committer, execute, self._patience, may_repeat=_was_undone)

    async def _run(
        self,
        engine: AsyncEngine,
        work: Work[T],
        patience: float | None,
        *,
        may_repeat: Callable[[DBAPIError], bool] = _came_to_nothing,
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
