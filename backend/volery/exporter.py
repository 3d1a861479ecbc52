"""The depth of the queue for Prometheus, from a process without models or a GPU.

Workers do not report it: a queue that no worker serves, or none that starts, must raise its alert too.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from volery import metrics
from volery.queue import Counts, JobStore
from volery.settings import Settings
from volery.units import UnitState
from volery.worker.lookout import look_out
from volery.worker.probes import ProbeServer


async def run_exporter(
    settings: Settings, interval_s: float, on_ready: Callable[[ProbeServer], None] = lambda _: None
) -> None:
    """Serve the queue's series until SIGTERM or an interrupt, counting units every `interval_s` seconds.

    A store that cannot be reached, at the start or later, is reported and tried again.

    Raises:
        ConfigurationError: the HTTP address cannot be had.
    """
    await look_out(settings, interval_s, _count, registry=metrics.QUEUE, on_trouble=_show_nothing, on_ready=on_ready)


async def _count(store: JobStore) -> None:
    _show(await store.counts())


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
