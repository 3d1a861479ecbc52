"""Why a worker takes no more work, once it does."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import structlog

from volery import metrics
from volery.units import QuarantineError, RefundReason
from volery.worker.health import Health

log = structlog.get_logger(__name__)


@contextmanager
def told_to_end(call: Callable[[], object]) -> Iterator[None]:
    """Call this for every SIGTERM and every interrupt inside the block, on the running event loop."""
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGTERM, signal.SIGINT)
    for number in numbers:
        loop.add_signal_handler(number, call)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


class Stop:
    """Set once, never unset: by a drain, or by a quarantine, which outranks it."""

    def __init__(self, health: Health) -> None:
        self._health = health
        self.requested = asyncio.Event()
        self.at_once = asyncio.Event()
        self.quarantine: QuarantineError | None = None
        self._listeners: set[Callable[[], None]] = set()

    @contextmanager
    def telling(self, listener: Callable[[], None]) -> Iterator[None]:
        """Call the listener if a stop is requested inside the block."""
        self._listeners.add(listener)
        try:
            yield
        finally:
            self._listeners.discard(listener)

    def drain(self) -> None:
        """Admit nothing more and finish what has the GPU; a second call gives everything back at once."""
        if self.requested.is_set():
            self.at_once.set()
            return
        log.info("draining")
        self._health.draining = True
        self._request()

    def enter_quarantine(self, error: QuarantineError) -> None:
        """From here on nothing of this process may be believed: admit nothing, publish nothing."""
        log.error("quarantined", reason=error.reason, error=error.message)
        metrics.QUARANTINE.labels(error.reason).set(1)
        self._health.quarantined = error.reason
        self.quarantine = self.quarantine or error.with_traceback(None)  # whose frames hold the group's audio
        self._request()
        self.at_once.set()

    def _request(self) -> None:
        self.requested.set()
        for listener in tuple(self._listeners):
            listener()

    @property
    def refund_reason(self) -> RefundReason:
        """Why leases that are given back now are given back."""
        return RefundReason.DRAIN if self.quarantine is None else RefundReason.QUARANTINE
