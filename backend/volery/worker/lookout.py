"""A process that looks at the job store every so often and serves what it sees: no leases, no GPU."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from time import monotonic

import structlog
from prometheus_client import CollectorRegistry

from volery.queue import JobStore, open_store
from volery.settings import Settings
from volery.units import StoreError
from volery.worker.health import Health
from volery.worker.probes import ProbeServer
from volery.worker.stop import told_to_end

log = structlog.get_logger(__name__)

Look = Callable[[JobStore], Awaitable[None]]
"""Raises `StoreError` where the store cannot be used."""

ENDING_SECONDS = 5.0
"""A database that hangs must not hold up a process that is told to end: it has no leases to give back."""


async def look_out(
    settings: Settings,
    interval_s: float,
    look: Look,
    *,
    registry: CollectorRegistry,
    on_trouble: Callable[[], None] = lambda: None,
    on_ready: Callable[[ProbeServer], None] = lambda _: None,
) -> None:
    """Look every `interval_s` seconds and serve a registry's series, until SIGTERM or an interrupt.

    A store that cannot be used, at the start or later, is reported and tried again. So is a SQLite file
    that is not there: none is made. A look that is under way at the end has `ENDING_SECONDS` to finish.

    Raises:
        ConfigurationError: the HTTP address cannot be had.
    """
    health = Health(stall_seconds=settings.worker.health_stall_seconds)
    health.models_ready = True
    probes = ProbeServer(health, settings.worker.http_host, settings.worker.http_port, registry=registry)
    log.info("serving metrics and probes", port=probes.port)
    told = asyncio.Event()
    looking = asyncio.create_task(_look_until(told, settings, interval_s, look, on_trouble, health))
    beating = asyncio.create_task(health.beat())

    def end() -> None:
        told.set()
        asyncio.get_running_loop().call_later(ENDING_SECONDS, looking.cancel)

    try:
        with told_to_end(end), contextlib.suppress(asyncio.CancelledError):
            on_ready(probes)
            await looking
    finally:
        beating.cancel()
        probes.close()


async def _look_until(
    told: asyncio.Event,
    settings: Settings,
    interval_s: float,
    look: Look,
    on_trouble: Callable[[], None],
    health: Health,
) -> None:
    store: JobStore | None = None
    said = ""
    try:
        while not told.is_set():
            try:
                store = store or await open_store(settings.queue, create=False)
                await look(store)
                health.store_seen, said = monotonic(), ""
            except StoreError as error:
                if said != str(error):  # once for each trouble, not for each look
                    said = str(error)
                    log.warning("the store cannot be used; trying again", seconds=interval_s, error=said)
                on_trouble()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(interval_s):
                    await told.wait()
    finally:
        if store is not None:
            await store.close()
