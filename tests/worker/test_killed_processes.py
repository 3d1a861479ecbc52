"""Real worker processes, really killed: nothing is lost, nothing is published twice, nobody pays for another."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from queue_database import Database

from volery.queue import upgrade
from worker.stubs import Bench
from worker.worker_process import Order, work

if TYPE_CHECKING:
    from volery.bench.chaos.server import ThrowawayServer

pytestmark = pytest.mark.slow

LEASE_SECONDS = 600.0
"""No live process loses a lease, however busy the machine is; those of the dead are let lapse."""


@pytest.fixture(scope="module")
def server() -> Iterator[ThrowawayServer]:
    pytest.importorskip("pgserver", reason="pgserver is not installed: no PostgreSQL")
    from volery.bench.chaos.server import ThrowawayServer, memory_folder

    with ThrowawayServer(memory_folder()) as server:
        server.configure(fsync="off")
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def order(request: pytest.FixtureRequest, tmp_path: Path) -> Order:
    """What a worker process is told that works well."""
    url = f"sqlite:///{tmp_path / 'volery.db'}"
    if request.param == "postgresql":
        server = request.getfixturevalue("server")
        url = server.url(server.create_database())
        upgrade(url)
    return Order(tmp_path, url, LEASE_SECONDS)


@pytest.fixture
async def bench(order: Order) -> AsyncIterator[Bench]:
    bench = await Bench.open(order.folder, database_url=order.database_url)
    yield bench
    bench.gpu.close()
    await bench.store.close()


Started = tuple[BaseProcess, Connection]
"""A worker process, and where it says of every group whose it is."""


def start(order: Order) -> Started:
    """Start a worker process."""
    # Forked from a process that has imported what a worker needs: that takes longer than the work.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["volery.worker.worker", "volery.queue", "asyncpg", "aiosqlite"])
    groups, says = context.Pipe(duplex=False)
    process = context.Process(target=work, args=(order, says))
    process.start()
    says.close()
    return process, groups


async def end_of(started: Started, order: Order) -> int | None:
    """Wait until a process is dead and the leases that it left have lapsed; its exit code."""
    process, _ = started
    await asyncio.to_thread(process.join)
    await Database(order.database_url).execute("UPDATE units SET expires_at = 0 WHERE state = 'leased'")
    return process.exitcode


async def test_units_of_a_killed_process_end_done_once_in_the_next_and_are_not_charged(
    bench: Bench, order: Order
) -> None:
    await bench.submit(*[0.1] * 12)
    doomed, groups = start(replace(order, hangs=True))
    working_on = await asyncio.to_thread(groups.recv)
    doomed.kill()
    assert await end_of((doomed, groups), order) != 0
    assert await end_of(start(order), order) == 0
    assert set((await bench.states()).values()) == {"done"}
    assert set((await bench.attempts()).values()) == {0}
    endings = await bench.endings()
    assert all(of_unit.count("done") == 1 for of_unit in endings.values())
    assert all(endings[key][0] == "expired" for key in working_on)
    artifacts = [record.artifact async for record in bench.store.records()]
    assert len(set(artifacts)) == 12


async def test_a_unit_that_kills_its_process_ends_dead_and_its_neighbours_done_uncharged(
    bench: Bench, order: Order
) -> None:
    await bench.submit(*[0.1] * 8)
    deaths = 0
    while await end_of(start(replace(order, killer="u3")), order) != 0:
        deaths += 1
        assert deaths < 12
    states = await bench.states()
    assert states.pop("u3") == "dead"
    assert set(states.values()) == {"done"}
    attempts = await bench.attempts()
    assert attempts.pop("u3") == 3
    assert set(attempts.values()) == {0}
    alone = [grant for grant in await bench.store.grants("u3") if grant.alone]
    assert [grant.ended_as for grant in alone] == ["expired"] * 3
    record = await bench.store.get("u3")
    assert record is not None
    assert record.reason == "lease_expired"
