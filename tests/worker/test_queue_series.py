"""What a worker reports of the queue itself."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from prometheus_client import REGISTRY

from volery.queue import JobStore
from volery.units import PreparedUnit, Transcript, UnitError, UnitState
from worker.stubs import Bench, digest_each


class _Counted:
    """The store; `seen` is set once a worker has counted its units."""

    def __init__(self, store: JobStore) -> None:
        self._store = store
        self.seen = threading.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def counts(self) -> Any:
        counts = await self._store.counts()
        self.seen.set()
        return counts


def _units_in(state: UnitState) -> float | None:
    return REGISTRY.get_sample_value("batch_pipeline_units_in_state", {"state": state.value})


async def test_a_worker_reports_how_many_units_are_in_each_state_zeros_too(bench: Bench) -> None:
    units = await bench.submit(0.2, 0.2, 0.2)
    await bench.store.cancel([unit.key for unit in units[:2]])
    store = _Counted(bench.store)

    def process(group: Sequence[PreparedUnit]) -> list[Transcript | UnitError]:
        assert store.seen.wait(30)
        return digest_each(group)

    await bench.worker(process, store=store).run()
    assert _units_in(UnitState.CANCELLED) == 2
    assert _units_in(UnitState.DEAD) == 0
