"""A drain: what has the GPU finishes, what waits is refunded, and nobody is charged."""

from __future__ import annotations

import asyncio
import io
import threading
from collections.abc import Sequence

import pytest

from volery.artifacts import open_source
from volery.artifacts.local import LocalFile
from volery.artifacts.store import SourceFile
from volery.units import PreparedUnit, Transcript, UnitError
from volery.worker.worker import Ending
from worker.stubs import Bench, digest_each


class Gate:
    """A stub `process` that stops in its first group until it is let go."""

    def __init__(self) -> None:
        self.entered, self.go_on = threading.Event(), threading.Event()

    def __call__(self, group: Sequence[PreparedUnit]) -> list[Transcript | UnitError]:
        self.entered.set()
        self.go_on.wait()
        return digest_each(group)

    async def is_entered(self) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self.entered.wait)


def hold_back_pulls(bench: Bench) -> tuple[asyncio.Event, asyncio.Event]:
    """Let no pull reach the store before the second event; the first says that one was asked for."""
    pull = bench.store.pull
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def slow(worker: str, limit: int, lease_seconds: float) -> object:
        asked.set()
        await go_on.wait()
        return await pull(worker, limit, lease_seconds)

    bench.store.pull = slow  # type: ignore[method-assign, assignment]
    return asked, go_on


async def test_a_drained_idle_worker_ends_at_once(bench: Bench) -> None:
    worker = bench.worker(burst=False, poll_seconds=60.0)
    run = asyncio.create_task(worker.run())
    await asyncio.sleep(0)
    worker.stop.drain()
    assert await run is Ending.DRAINED


async def test_the_flight_with_the_gpu_is_published_and_the_waiting_one_refunded(bench: Bench) -> None:
    await bench.submit(*[0.1] * 4)
    gate = Gate()
    worker = bench.worker(gate, burst=False, flight_units=2)
    run = asyncio.create_task(worker.run())
    await gate.is_entered()
    while len(await bench.store.grants()) < 4:
        await asyncio.sleep(0.01)
    worker.stop.drain()
    while list((await bench.states()).values()).count("ready") < 2:  # refunded while the other still has the GPU
        await asyncio.sleep(0.01)
    gate.go_on.set()
    assert await run is Ending.DRAINED
    assert sorted((await bench.states()).values()) == ["done", "done", "ready", "ready"]
    assert set((await bench.attempts()).values()) == {0}
    assert sorted(ending for (ending,) in (await bench.endings()).values()) == ["done"] * 2 + ["refund:drain"] * 2
    assert worker.budget.in_use == 0.0


async def test_a_flight_that_is_still_being_prepared_is_refunded(bench: Bench) -> None:
    await bench.submit(0.1, 0.1)
    opening, go_on = threading.Event(), threading.Event()

    class Slow:
        def open(self, uri: str, max_bytes: int) -> SourceFile:
            opening.set()
            go_on.wait()
            return open_source().open(uri, max_bytes)

    worker = bench.worker(burst=False, source=Slow())
    run = asyncio.create_task(worker.run())
    await asyncio.get_running_loop().run_in_executor(None, opening.wait)
    worker.stop.drain()
    assert await run is Ending.DRAINED
    go_on.set()
    assert set((await bench.states()).values()) == {"ready"}
    assert set((await bench.attempts()).values()) == {0}


class Stuck(io.FileIO):
    """A file on a share that answers no more, until it is let go or somebody has waited for it too long."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.reading, self.go_on, self.returned = threading.Event(), threading.Event(), threading.Event()
        self.was_let_go = False

    def readinto(self, buffer: object) -> int:
        self.reading.set()
        self.was_let_go = self.go_on.wait(10.0)
        self.returned.set()
        return super().readinto(buffer)  # type: ignore[arg-type]


async def test_a_read_that_hangs_holds_up_no_drain(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("volery.worker.preparation.probe_seconds", lambda *_: 0.1)
    (unit,) = await bench.submit(0.1)
    path = unit.audio_uri.removeprefix("file://")
    stuck = Stuck(path)

    class OneFile:
        def open(self, uri: str, max_bytes: int) -> SourceFile:
            return LocalFile(io.BufferedReader(stuck), path, max_bytes)

    worker = bench.worker(burst=False, source=OneFile())
    run = asyncio.create_task(worker.run())
    await asyncio.get_running_loop().run_in_executor(None, stuck.reading.wait)
    worker.stop.drain()
    assert await run is Ending.DRAINED
    stuck.go_on.set()
    await asyncio.get_running_loop().run_in_executor(None, stuck.returned.wait)
    assert stuck.was_let_go
    assert await bench.endings() == {"u0": ["refund:drain"]}


async def test_a_second_drain_refunds_everything_at_once(bench: Bench) -> None:
    await bench.submit(0.1, 0.1)
    gate = Gate()
    worker = bench.worker(gate, burst=False)
    run = asyncio.create_task(worker.run())
    await gate.is_entered()
    worker.stop.drain()
    worker.stop.drain()
    assert await run is Ending.OVERRAN
    gate.go_on.set()
    assert set((await bench.states()).values()) == {"ready"}
    assert set((await bench.attempts()).values()) == {0}


async def test_a_drain_that_takes_too_long_refunds_what_is_left(bench: Bench) -> None:
    await bench.submit(0.1)
    gate = Gate()
    worker = bench.worker(gate, burst=False, drain_seconds=0.05)
    run = asyncio.create_task(worker.run())
    await gate.is_entered()
    worker.stop.drain()
    assert await run is Ending.OVERRAN
    gate.go_on.set()
    assert await bench.endings() == {"u0": ["refund:drain"]}


async def test_a_publication_under_way_is_finished(bench: Bench) -> None:
    await bench.submit(0.1)
    results = bench.results
    writing, go_on = threading.Event(), threading.Event()

    class Slow:
        def write(self, token: str, document: bytes) -> str:
            writing.set()
            go_on.wait()
            return results.write(token, document)

    worker = bench.worker(burst=False, results=Slow())
    run = asyncio.create_task(worker.run())
    await asyncio.get_running_loop().run_in_executor(None, writing.wait)
    worker.stop.drain()
    go_on.set()
    assert await run is Ending.DRAINED
    assert await bench.endings() == {"u0": ["done"]}


async def test_a_grant_that_arrives_after_the_drain_began_is_refunded(bench: Bench) -> None:
    await bench.submit(0.1)
    asked, go_on = hold_back_pulls(bench)
    worker = bench.worker(burst=False)
    run = asyncio.create_task(worker.run())
    await asked.wait()
    worker.stop.drain()
    go_on.set()
    assert await run is Ending.DRAINED
    assert await bench.endings() == {"u0": ["refund:late_grant"]}
    assert await bench.attempts() == {"u0": 0}


async def test_a_grant_that_arrives_after_its_deadline_is_refunded(bench: Bench) -> None:
    await bench.submit(0.1)
    pull = bench.store.pull
    asked_again = asyncio.Event()
    late: list[object] = []

    async def late_once(worker: str, limit: int, lease_seconds: float) -> object:
        if late:
            asked_again.set()
            return await pull(worker, limit, lease_seconds)
        late.extend(await pull(worker, limit, lease_seconds))
        await asked_again.wait()
        return late

    bench.store.pull = late_once  # type: ignore[method-assign, assignment]
    assert await bench.worker(admission_deadline_seconds=0.5).run() is Ending.FINISHED
    assert await bench.endings() == {"u0": ["refund:late_grant", "done"]}


async def test_a_grant_that_arrives_after_its_lane_is_gone_is_refunded(bench: Bench) -> None:
    await bench.submit(0.1)
    asked, go_on = hold_back_pulls(bench)
    worker = bench.worker(burst=False)
    run = asyncio.create_task(worker.run())
    await asked.wait()
    lanes = [task for task in asyncio.all_tasks() if task.get_name().startswith("lane-")]
    for lane in lanes:
        lane.cancel()
    await asyncio.wait(lanes)
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert await bench.endings() == {"u0": ["refund:late_grant"]}
