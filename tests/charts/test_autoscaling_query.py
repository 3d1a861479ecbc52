"""The autoscaler's query, asked of a real job store."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from queue_database import Database, units_named

from chart_rendering import of_kind
from volery.queue import Publication, upgrade
from volery.units import Reason, ResultClass

pytest.importorskip("pgserver", reason="pgserver is not installed: no PostgreSQL")

from volery.bench.chaos.server import ThrowawayServer, memory_folder


@pytest.fixture(scope="module")
def server() -> Iterator[ThrowawayServer]:
    with ThrowawayServer(memory_folder()) as server:
        yield server


@pytest.fixture
def database(server: ThrowawayServer) -> Database:
    url = server.url(server.create_database())
    upgrade(url)
    return Database(url)


async def _counted(database: Database) -> int:
    [trigger] = of_kind("ScaledObject", {"autoscaling": {"enabled": True}})["spec"]["triggers"]
    [[count]] = await database.execute(trigger["metadata"]["query"])
    return int(count)


async def test_units_count_while_they_are_ready_or_leased_and_not_after(database: Database) -> None:
    store = await database.open()
    assert await _counted(database) == 0
    await store.submit(units_named("a", "b", "c"))
    assert await _counted(database) == 3
    [lease] = await store.pull("worker", 1, 60)
    assert await _counted(database) == 3
    await store.complete([Publication(lease.token, "result.json", ResultClass.SPEECH, 1.0)])
    assert await _counted(database) == 2
    await store.close()


async def test_a_lapsed_lease_still_counts_so_that_somebody_comes_to_reap_it(database: Database) -> None:
    store = await database.open()
    await store.submit(units_named("a"))
    await database.lapse(await store.pull("worker", 1, 60))
    assert await _counted(database) == 1
    await store.close()


async def test_a_unit_that_backs_off_counts_once_its_time_has_come(database: Database) -> None:
    store = await database.open(retry_base_seconds=600.0)
    await store.submit(units_named("a"))
    [lease] = await store.pull("worker", 1, 60)
    await store.fail(lease.token, Reason.SPEECH_FAILED, "it failed")
    assert await _counted(database) == 0
    await database.forward("a")
    assert await _counted(database) == 1
    await store.close()
