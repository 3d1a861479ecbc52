"""Admission: how a lane comes by its next flight."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from time import monotonic, perf_counter
from typing import Any

import structlog

from volery import metrics
from volery.queue.store import JobStore
from volery.settings import WorkerSettings
from volery.units import Lease, RefundReason, StoreError
from volery.worker.leases import HeldLease, LeaseKeeper
from volery.worker.stop import Stop

log = structlog.get_logger(__name__)

_STORE_RETRY_SECONDS = (0.5, 30.0)
_BURST_STORE_FAILURES = 6


class Admission:
    """Pulls flights, one lane at a time, until there will be no more."""

    def __init__(
        self,
        store: JobStore,
        keeper: LeaseKeeper,
        settings: WorkerSettings,
        worker: str,
        lease_seconds: float,
        stop: Stop,
        *,
        burst: bool,
    ) -> None:
        self._store = store
        self._keeper = keeper
        self._settings = settings
        self._worker = worker
        self._lease_seconds = lease_seconds
        self._stop = stop
        self._burst = burst
        self._one_at_a_time = asyncio.Lock()
        self._flight_ended = asyncio.Event()
        self._store_failures = 0
        self._late: set[asyncio.Task[None]] = set()

    def flight_ended(self) -> None:
        """Tell a lane that waits for work to look again: the end of a flight may have made some."""
        self._flight_ended.set()

    async def next_flight(self) -> list[HeldLease] | None:
        """The next flight, waiting for work; None when draining, or when a burst has no more.

        Raises:
            StoreError: in a burst, the store stayed out of reach.
        """
        async with self._one_at_a_time:
            while not self._stop.requested.is_set():
                self._flight_ended.clear()
                try:
                    if held := await self._pull():
                        self._store_failures = 0
                        return held
                    if self._stop.requested.is_set() or (self._burst and await self._is_drained()):
                        return None
                    self._store_failures = 0
                except StoreError as error:
                    await self._back_off(error)
                    continue
                await self._wait_for_work()
        return None

    async def settle(self) -> None:
        """Wait for grants that may still arrive, to give them back; they would lapse otherwise."""
        if self._late:
            await asyncio.wait(self._late, timeout=self._settings.admission_deadline_seconds)

    async def _pull(self) -> list[HeldLease]:
        asked_at, started = monotonic(), perf_counter()
        pulling = asyncio.create_task(self._store.pull(self._worker, self._settings.flight_units, self._lease_seconds))
        try:
            # Not `wait_for`: on Python 3.11 it swallows a cancellation that meets the end of the pull.
            async with asyncio.timeout(self._settings.admission_deadline_seconds):
                leases = await asyncio.shield(pulling)
        except TimeoutError as error:
            self._refund_late(pulling)
            raise StoreError("a pull outlasted its deadline") from error
        except asyncio.CancelledError:
            self._refund_late(pulling)
            raise
        if not leases:
            return []
        metrics.STAGE_SECONDS.labels("admission").observe(perf_counter() - started)
        held = self._keeper.hold(leases, asked_at)
        if self._stop.requested.is_set():
            await self._keeper.refund([one.token for one in held], RefundReason.LATE_GRANT)
            return []
        return held

    def _refund_late(self, pulling: asyncio.Task[list[Lease]]) -> None:
        """Nobody waits for this grant any more, yet it may still arrive."""
        refunding = asyncio.create_task(self._refund_when_granted(pulling))
        self._late.add(refunding)
        refunding.add_done_callback(self._late.discard)

    async def _refund_when_granted(self, pulling: asyncio.Task[list[Lease]]) -> None:
        try:
            leases = await pulling
        except StoreError:
            return
        await self._keeper.refund([lease.token for lease in leases], RefundReason.LATE_GRANT)

    async def _is_drained(self) -> bool:
        """Whether nothing is ready, leased by anyone or backing off."""
        return (await self._store.counts()).unfinished == 0

    async def _back_off(self, error: StoreError) -> None:
        self._store_failures += 1
        if self._burst and self._store_failures >= _BURST_STORE_FAILURES:
            raise error
        shortest, longest = _STORE_RETRY_SECONDS
        wait = min(shortest * 2 ** (self._store_failures - 1), longest)
        log.warning("no flight: the store cannot be used; trying again", seconds=wait, error=str(error))
        await self._wait(wait)

    async def _wait(self, seconds: float) -> None:
        """Wait, unless a flight's end or a drain comes first."""
        await self._first_of(asyncio.sleep(seconds))

    async def _wait_for_work(self) -> None:
        """Wait until the next poll, unless a submission, a flight's end or a drain comes first."""
        await self._first_of(self._store.wait_for_work(self._settings.poll_seconds))

    async def _first_of(self, wait: Coroutine[Any, Any, None]) -> None:
        events = (self._flight_ended, self._stop.requested)
        waits = [asyncio.create_task(one) for one in (wait, *(event.wait() for event in events))]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waits:
                one.cancel()
