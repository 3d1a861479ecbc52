"""What becomes of units while results cannot be written, which is no unit's fault."""

from __future__ import annotations

import asyncio

import pytest

from volery.artifacts.store import ResultStore
from volery.units import ArtifactsUnavailable, Reason, StoreError, UnitState
from volery.worker import publication
from volery.worker.worker import Ending
from worker.stubs import Bench


class Full:
    """The place for results; it is full for so many writes, or for as long as it is told."""

    def __init__(self, results: ResultStore, times: int) -> None:
        self._results = results
        self.left = times
        self.refused = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def write(self, token: str, document: bytes) -> str:
        if self.left > 0:
            self.left -= 1
            self._loop.call_soon_threadsafe(self.refused.set)
            raise ArtifactsUnavailable(Reason.PUBLISH_FAILED, "no space left on device")
        return self._results.write(token, document)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publication, "_WRITE_RETRY_SECONDS", (0.01, 0.02))


async def test_a_result_is_written_again_until_it_can_be(bench: Bench) -> None:
    await bench.submit(0.2, 0.2)
    full = Full(bench.results, times=5)
    assert await bench.worker(results=full).run() is Ending.FINISHED
    assert await bench.states() == {"u0": "done", "u1": "done"}
    assert await bench.attempts() == {"u0": 0, "u1": 0}
    assert await bench.endings() == {"u0": ["done"], "u1": ["done"]}


async def test_who_watches_is_told_once_that_a_result_cannot_be_written(bench: Bench) -> None:
    await bench.submit(0.2)
    await bench.worker(results=Full(bench.results, times=5)).run()
    assert [(one.state, one.reason) for one in bench.ended] == [
        (UnitState.LEASED, Reason.PUBLISH_FAILED),
        (UnitState.DONE, None),
    ]


async def test_a_drain_gives_back_uncharged_what_cannot_be_written(bench: Bench) -> None:
    await bench.submit(0.2)
    full = Full(bench.results, times=10**9)
    worker = bench.worker(results=full, burst=False)
    running = asyncio.create_task(worker.run())
    await full.refused.wait()
    worker.stop.drain()
    assert await running is Ending.DRAINED
    assert await bench.states() == {"u0": "ready"}
    assert await bench.attempts() == {"u0": 0}
    assert await bench.endings() == {"u0": ["refund:drain"]}


async def test_a_unit_goes_back_uncharged_once_a_lane_has_waited_long_enough(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publication, "PATIENCE_SECONDS", 0.0)
    await bench.submit(0.2)
    full = Full(bench.results, times=1)
    worker = bench.worker(results=full, burst=False, lanes=1)
    await bench.until_done(worker)
    assert await bench.endings() == {"u0": ["refund:artifacts", "done"]}
    assert await bench.attempts() == {"u0": 0}


async def test_a_burst_ends_with_the_reason_and_charges_nothing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publication, "BURST_PATIENCE_SECONDS", 0.0)
    await bench.submit(0.2, 0.2)
    with pytest.raises(StoreError, match=r"results cannot be written: .*no space left"):
        await bench.worker(results=Full(bench.results, times=10**9)).run()
    assert await bench.states() == {"u0": "ready", "u1": "ready"}
    assert await bench.attempts() == {"u0": 0, "u1": 0}
