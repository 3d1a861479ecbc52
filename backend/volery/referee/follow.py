"""The referee as a deployment of its own: it follows what a fleet publishes, by the job store, without a lease."""

from __future__ import annotations

from collections.abc import Callable

from volery import metrics
from volery.queue import JobStore, UnitRecord
from volery.referee.audit import Audit, Referee
from volery.referee.cases import Case
from volery.settings import Settings
from volery.units import ConfigurationError, UnitState
from volery.worker.lookout import look_out
from volery.worker.probes import ProbeServer

UNITS_LOOKED_AT = 1000
"""The latest ends that each look sees; of more than these between two looks, the earliest are not audited."""


async def follow(
    settings: Settings,
    referee: Referee,
    interval_s: float,
    on_ready: Callable[[ProbeServer], None] = lambda _: None,
) -> None:
    """Audit a sample of the units that are done from now on, until SIGTERM or an interrupt; serve the referee's series.

    Raises:
        ConfigurationError: the sample is of no unit at all, or the HTTP address cannot be had.
    """
    if settings.referee.referee_sample_rate == 0:
        raise ConfigurationError("nothing would be audited: set BATCH_PIPELINE_REFEREE_SAMPLE_RATE above 0")
    audit = Audit(settings.referee, referee)
    try:
        await look_out(settings, interval_s, Following(audit).look, registry=metrics.REFEREE, on_ready=on_ready)
    finally:
        audit.close()


class Following:
    """Offers each unit that was not done at the look before; the first look only learns what is."""

    def __init__(self, audit: Audit) -> None:
        self._audit = audit
        self._seen: frozenset[str | None] | None = None
        self._since_s = 0.0

    async def look(self, store: JobStore) -> None:
        """Offer what is new.

        Raises:
            StoreError: the store cannot be used.
        """
        latest = await store.latest([UnitState.DONE], UNITS_LOOKED_AT)
        if self._seen is not None:
            for record in reversed(latest):
                self._offer(record, self._seen)
        self._seen = frozenset(record.artifact for record in latest)
        if len(latest) == UNITS_LOOKED_AT:
            self._since_s = latest[-1].finished_at or 0.0

    def _offer(self, record: UnitRecord, seen: frozenset[str | None]) -> None:
        # Those before the earliest that was looked at come into view again where later ones were requeued.
        is_new = record.artifact not in seen and (record.finished_at or 0.0) >= self._since_s
        if is_new and record.artifact is not None:
            self._audit.offer(Case(record.unit, record.artifact))
