"""Waiting for work: woken by a submission where the database can say so, by the clock where it cannot."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import structlog
from sqlalchemy import URL, select
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine
from sqlalchemy.sql import func

from volery.queue.errors import store_errors
from volery.units import StoreError

log = structlog.get_logger(__name__)

_CHANNEL = "volery_work"
_RETRY_SECONDS = (1.0, 60.0)


async def announce(conn: AsyncConnection) -> None:
    """Wake idle workers once the transaction of `conn` is committed.

    Only submissions do this: PostgreSQL lets transactions that notify commit one after another.
    """
    if conn.dialect.name == "postgresql":
        await conn.execute(select(func.pg_notify(_CHANNEL, "")))


class Listener:
    """Hears of submissions on a connection of its own, from the first wait until it is closed."""

    def __init__(self, engine: AsyncEngine, url: URL) -> None:
        self._engine = engine
        self._url = url
        self._heard = asyncio.Event()
        self._listening: asyncio.Task[None] | None = None

    async def wait(self, seconds: float) -> None:
        """Wait for a submission since the last wait, at most so long."""
        if self._listening is None:
            self._listening = asyncio.create_task(self._listen_for_ever())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._heard.wait()
        self._heard.clear()

    async def close(self) -> None:
        """Stop listening."""
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.wait([self._listening])

    async def _listen_for_ever(self) -> None:
        shortest, longest = pause, _ = _RETRY_SECONDS
        while True:
            try:
                with store_errors(self._url):
                    await self._listen()
                pause = shortest
            except StoreError as error:
                log.warning("not listening for work, which is polled instead", seconds=pause, error=str(error))
                pause = min(2 * pause, longest)
            await asyncio.sleep(pause)

    async def _listen(self) -> None:
        """Listen until the connection is gone."""
        gone = asyncio.Event()
        async with self._engine.connect() as conn:
            try:
                driver: Any = (await conn.get_raw_connection()).driver_connection
                driver.add_termination_listener(lambda _: gone.set())
                await driver.add_listener(_CHANNEL, lambda *_: self._heard.set())
                self._heard.set()  # nobody listened until now
                await gone.wait()
            finally:
                await conn.invalidate()  # it has a listener: nobody else may have it
