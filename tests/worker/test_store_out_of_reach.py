"""A worker whose database is away: it asks again, ever more seldom."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from volery import metrics
from volery.queue import JobStore, Publication
from volery.units import Lease, StoreError
from volery.worker.admission import Admission
from worker.stubs import Bench


class Behind:
    """A store that fails so many times in some way."""

    def __init__(self, store: JobStore, times: int) -> None:
        self._store = store
        self._times = times
        self.refused = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class Away(Behind):
    """A store that cannot be reached for so many pulls."""

    async def pull(self, worker: str, limit: int, lease_seconds: float) -> list[Lease]:
        if self.refused < self._times:
            self.refused += 1
            raise StoreError("the database is away")
        return await self._store.pull(worker, limit, lease_seconds)


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long lanes would have waited."""
    waited: list[float] = []

    async def at_once(self: Admission, seconds: float) -> None:
        waited.append(seconds)
        await asyncio.sleep(0)

    monkeypatch.setattr(Admission, "_wait", at_once)
    return waited


async def test_lanes_together_wait_ever_longer_between_attempts_to_reach_the_store(
    bench: Bench, waits: list[float]
) -> None:
    await bench.submit(0.2)
    away = Away(bench.store, times=8)
    worker = bench.worker(store=away, burst=False, lanes=2)
    await bench.until_done(worker)
    assert waits == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    assert away.refused == len(waits)


async def test_a_burst_gives_up_after_a_few_attempts(bench: Bench, waits: list[float]) -> None:
    away = Away(bench.store, times=10**9)
    with pytest.raises(StoreError, match="the database is away"):
        await bench.worker(store=away, lanes=1).run()
    assert away.refused == len(waits) + 1 == 6


async def test_a_commit_whose_answer_was_lost_is_told_as_done_and_no_lease_as_lost(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Deaf(Behind):
        async def complete(self, publications: Sequence[Publication]) -> frozenset[str]:
            committed = await self._store.complete(publications)
            if self.refused < self._times:
                self.refused += 1
                raise StoreError("the connection was cut")
            return committed

    await bench.submit(0.1)
    lost = metrics.LEASES_LOST._value.get()
    worker = bench.worker(store=Deaf(bench.store, times=1), lanes=1)
    monkeypatch.setattr("volery.worker.publication._COMMIT_RETRY_SECONDS", 0.0)
    await worker.run()
    record = await bench.store.get("u0")
    assert record is not None
    assert [one.published and one.published.artifact for one in bench.ended] == [record.artifact]
    assert metrics.LEASES_LOST._value.get() == lost


async def test_a_commit_that_failed_under_a_lease_that_is_gone_is_not_told_as_done(bench: Bench) -> None:
    class Taken(Behind):
        async def complete(self, publications: Sequence[Publication]) -> frozenset[str]:
            if self.refused < self._times:
                self.refused += 1
                await self._store.cancel(all_unfinished=True)
                raise StoreError("the connection was cut")
            return await self._store.complete(publications)

    await bench.submit(0.1)
    await bench.worker(store=Taken(bench.store, times=1)).run()
    assert bench.ended == []
    assert await bench.endings() == {"u0": ["cancelled"]}


@pytest.mark.parametrize("ticks", range(6))
async def test_a_lane_that_is_cancelled_while_its_pull_ends_is_cancelled_and_gives_the_grant_back(
    bench: Bench, ticks: int
) -> None:
    """A cancellation that is lost leaves the lane to pull for ever, and the worker's end to wait for it."""
    asked, granted = asyncio.Event(), asyncio.Event()

    class Slow(Behind):
        async def pull(self, worker: str, limit: int, lease_seconds: float) -> list[Lease]:
            leases = await self._store.pull(worker, limit, lease_seconds)
            asked.set()
            await granted.wait()
            return leases

    await bench.submit(0.1)
    admission = bench.worker(store=Slow(bench.store, times=0))._admission
    asking = asyncio.create_task(admission.next_flight())
    await asked.wait()
    granted.set()
    for _ in range(ticks):
        await asyncio.sleep(0)
    if asking.cancel():
        await asyncio.wait([asking])
        assert asking.cancelled()
        await admission.settle()
        assert await bench.endings() == {"u0": ["refund:late_grant"]}
    else:
        assert [held.unit.key for held in asking.result() or []] == ["u0"]
