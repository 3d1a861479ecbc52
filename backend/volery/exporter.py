"""The depth of the queue for Prometheus, from a process without models or a GPU.

Workers do not report it: a queue that no worker serves, or none that starts, must raise its alert too.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable
from time import monotonic

import structlog

from volery import metrics
from volery.queue import Counts, JobStore, open_store
from volery.settings import Settings
from volery.units import StoreError, UnitState
from volery.worker.health import Health
from volery.worker.probes import ProbeServer
from volery.worker.stop import told_to_end

log = structlog.get_logger(__name__)


async def run_exporter(
    settings: Settings, interval_s: float, on_ready: Callable[[ProbeServer], None] = lambda _: None
) -> None:
    """Serve the queue's series until SIGTERM or an interrupt, counting units every `interval_s` seconds.

    A store that cannot be reached, at the start or later, is reported and tried again.

    Raises:
        ConfigurationError: the HTTP address cannot be had.
    """
    health = Health(stall_seconds=settings.worker.health_stall_seconds)
    health.models_ready = True
    probes = ProbeServer(health, settings.worker.http_host, settings.worker.http_port, registry=metrics.QUEUE)
    log.info("serving metrics and probes", port=probes.port)
    work = asyncio.gather(_export(settings, health, interval_s), health.beat())
    try:
        with told_to_end(work.cancel), contextlib.suppress(asyncio.CancelledError):
            on_ready(probes)
            await work
    finally:
        probes.close()


async def _export(settings: Settings, health: Health, interval_s: float) -> None:
    store: JobStore | None = None
    said = ""
    try:
        while True:
            try:
                store = store or await open_store(settings.queue)
                _show(await store.counts())
                health.store_seen, said = monotonic(), ""
            except StoreError as error:
                if said != str(error):  # once for each trouble, not for each count
                    said = str(error)
                    log.warning("the store cannot be used; trying again", seconds=interval_s, error=said)
                _show_nothing()
            await asyncio.sleep(interval_s)
    finally:
        if store is not None:
            await store.close()


def _show(counts: Counts) -> None:
    metrics.STORE_REACHABLE.set(1)
    metrics.READY_UNITS.set(counts.available)
    metrics.OLDEST_READY_SECONDS.set(counts.oldest_available_s or 0.0)
    for state in UnitState:
        metrics.UNITS_IN_STATE.labels(state).set(counts.by_state.get(state, 0))


def _show_nothing() -> None:
    """Nobody knows the queue now: its last figures would look like news."""
    metrics.STORE_REACHABLE.set(0)
    metrics.READY_UNITS.set(math.nan)
    metrics.OLDEST_READY_SECONDS.set(math.nan)
    for state in UnitState:
        metrics.UNITS_IN_STATE.labels(state).set(math.nan)
