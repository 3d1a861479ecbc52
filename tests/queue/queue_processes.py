"""What other processes do to a store under test: in a module that they can import."""

from __future__ import annotations

import asyncio
import multiprocessing
from concurrent.futures import ProcessPoolExecutor

from queue_database import Database, keys_of, unit

from volery.queue import JobStore, Publication
from volery.units import ResultClass


def processes(count: int) -> ProcessPoolExecutor:
    """Fresh processes, one of which that dies fails the test instead of hanging it.

    Forked from one that has imported what they need: that takes longer than what they do.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["volery.queue", "aiosqlite", "asyncpg", "alembic.command"])
    return ProcessPoolExecutor(count, mp_context=context)


async def work(store: JobStore, worker: str) -> list[str]:
    """Pull and complete until nothing is left; the keys that were granted."""
    granted: list[str] = []
    while leases := await store.pull(worker, 4, 60):
        granted += keys_of(leases)
        results = [Publication(lease.token, f"by {worker}", ResultClass.SPEECH, 1.0) for lease in leases]
        assert len(await store.complete(results)) == len(leases)
    return granted


def work_in_process(url: str, worker: str) -> list[str]:
    async def run() -> list[str]:
        store = await Database(url).open()
        try:
            lanes = await asyncio.gather(work(store, worker), work(store, worker))
        finally:
            await store.close()
        return [key for lane in lanes for key in lane]

    return asyncio.run(run())


def open_fresh(url: str, number: int) -> None:
    async def run() -> None:
        store = await Database(url).open()
        await store.submit([unit(str(number))])
        await store.close()

    asyncio.run(run())
