"""Transactions that begin again where nothing was committed, and that never wait for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from sqlalchemy import URL
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from volery.queue.dialects import take_time
from volery.queue.engine import is_embedded, writing
from volery.queue.errors import store_errors

T = TypeVar("T")
Work = Callable[[AsyncConnection], Awaitable[T]]
"""What is done in a transaction. It may be done again, on another connection, where the first came to nothing."""

_TRIES = 4
_PATIENCE_SECONDS = 35.0  # a little longer than the server's statement timeout: a silent network has none
_UNDONE = ("40P01", "40001")  # deadlock detected, serialization failure


class Transactions:
    """Runs work in transactions on one store.

    Errors are `StoreError`s. Where the connection breaks in a commit, nobody knows whether it
    took, and the error is passed on: a lease holder who asks again learns it from his token.
    """

    def __init__(self, engine: AsyncEngine, url: URL) -> None:
        self._engine = engine
        self._writer = writing(engine)
        self._url = url
        self._patience = None if is_embedded(url) else _PATIENCE_SECONDS

    async def read(self, work: Work[T]) -> T:
        """Run work that changes nothing."""
        return await self._run(self._engine, work, self._patience)

    async def write(self, work: Work[T]) -> T:
        """Run work on a few units."""
        return await self._run(self._writer, work, self._patience)

    async def write_many(self, work: Work[T]) -> T:
        """Run work on any number of units, however long it takes."""

        async def unhurried(conn: AsyncConnection) -> T:
            await take_time(conn)
            return await work(conn)

        return await self._run(self._writer, unhurried, None)

    async def _run(self, engine: AsyncEngine, work: Work[T], patience: float | None) -> T:
        with store_errors(self._url):
            async with asyncio.timeout(patience):
                for left in reversed(range(_TRIES)):
                    async with engine.connect() as conn:
                        try:
                            result = await work(conn)
                        except DBAPIError as error:
                            if left and _came_to_nothing(error):
                                continue
                            raise
                        await conn.commit()
                        return result
        raise AssertionError("the last try returns or raises")


def _came_to_nothing(error: DBAPIError) -> bool:
    """Whether the server undid the work, or its connection turned out to be dead: then it may be done again."""
    return error.connection_invalidated or getattr(error.orig, "sqlstate", None) in _UNDONE
