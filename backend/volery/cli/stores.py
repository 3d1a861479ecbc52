"""The job store for the length of one command."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from volery.cli.environment import queue_settings
from volery.queue import JobStore, open_store
from volery.settings import QueueSettings

T = TypeVar("T")


@asynccontextmanager
async def opened(settings: QueueSettings, *, create: bool = False) -> AsyncIterator[JobStore]:
    """The job store, closed again at the end. Only with `create` is a SQLite store made where there is none.

    Raises:
        StoreError: it cannot be used.
    """
    store = await open_store(settings, create=create)
    try:
        yield store
    finally:
        await store.close()


async def open_and_close(settings: QueueSettings, *, create: bool = False) -> None:
    """Find out whether the job store can be used; see `opened`.

    Raises:
        StoreError: it cannot.
    """
    async with opened(settings, create=create):
        pass


def with_store(work: Callable[[JobStore], Awaitable[T]], *, create: bool = False) -> T:
    """Run a command's work on the job store that the settings name; see `opened`.

    Raises:
        ConfigurationError: the settings make no sense.
        StoreError: the store cannot be used.
    """

    async def run() -> T:
        async with opened(queue_settings(), create=create) as store:
            return await work(store)

    return asyncio.run(run())
