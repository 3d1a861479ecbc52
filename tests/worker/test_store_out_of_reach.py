"""A worker whose database is away: it asks again, ever more seldom."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from volery.queue import JobStore
from volery.units import Lease, StoreError
from volery.worker.admission import Admission
from worker.stubs import Bench


class Away:
    """A store that cannot be reached for so many pulls."""

    def __init__(self, store: JobStore, times: int) -> None:
        self._store = store
        self._times = times
        self.refused = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

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
