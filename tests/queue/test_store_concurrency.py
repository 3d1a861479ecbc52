"""Many processes and many tasks on one store."""

from __future__ import annotations

import asyncio
from collections import Counter

from queue_database import Database, unit, units_named
from queue_processes import processes, work, work_in_process

from volery.queue import JobStore, Publication
from volery.queue.engine import create_engine, parse_url, writing
from volery.units import RefundReason, ResultClass, UnitState

UNITS = [f"u{number}" for number in range(300)]


def test_processes_are_granted_each_unit_once(database: Database) -> None:
    async def submit() -> None:
        store = await database.open()
        await store.submit(units_named(*UNITS))
        await store.close()

    async def committed() -> tuple[dict[UnitState, int], int]:
        store = await database.open()
        counts, grants = await store.counts(), await store.grants()
        await store.close()
        return counts.by_state, len(grants)

    asyncio.run(submit())
    with processes(4) as pool:
        granted = list(pool.map(work_in_process, [database.url] * 4, [f"w{number}" for number in range(4)]))
    assert Counter(key for keys in granted for key in keys) == Counter(UNITS)
    assert asyncio.run(committed()) == ({UnitState.DONE: 300}, 300)


async def test_tasks_are_granted_each_unit_once(store: JobStore) -> None:
    await store.submit(units_named(*UNITS))
    granted = await asyncio.gather(*(work(store, f"w{number}") for number in range(12)))
    assert Counter(key for keys in granted for key in keys) == Counter(UNITS)


async def test_lanes_of_one_process_never_hold_a_unit_beside_one_that_is_alone(
    store: JobStore, database: Database
) -> None:
    await store.submit(units_named("a", "b"))
    for worker in ("w1", "w2"):
        await database.lapse(await store.pull(worker, 8, 60))
        await store.reap()
    pulls = await asyncio.gather(*(store.pull("w3", 8, 60) for _ in range(8)))
    assert [lease.alone for leases in pulls for lease in leases] == [True]


async def test_the_same_submission_from_many_tasks_is_one(store: JobStore) -> None:
    batch = units_named(*UNITS)
    submitted = await asyncio.gather(*(store.submit(batch) for _ in range(8)))
    assert sum(one.new for one in submitted) == len(UNITS)
    assert (await store.counts()).available == len(UNITS)


async def test_of_two_ends_of_one_lease_only_one_counts(store: JobStore) -> None:
    await store.submit(units_named(*UNITS[:20]))
    leases = await store.pull("w", 20, 60)
    ends = await asyncio.gather(
        *(store.complete([Publication(lease.token, "x", ResultClass.SPEECH, 1.0)]) for lease in leases),
        *(store.refund([lease.token], RefundReason.DRAIN) for lease in leases),
    )
    assert Counter(token for held in ends for token in held) == Counter(lease.token for lease in leases)


async def test_a_task_cancelled_in_a_pull_leaves_a_store_that_works(store: JobStore) -> None:
    await store.submit(units_named(*UNITS))
    for patience in range(8):
        pull = asyncio.create_task(store.pull("gone", 8, 60))
        for _ in range(patience):
            await asyncio.sleep(0)
        pull.cancel()
        await asyncio.gather(pull, return_exceptions=True)
    assert len(await store.pull("w", 8, 60)) == 8
    await store._transactions.settle()  # type: ignore[attr-defined]  # a pull may still be at it
    live = [grant for grant in await store.grants() if grant.ended_at is None]
    assert len(live) == (await store.counts()).by_state[UnitState.LEASED]


async def test_work_on_a_file_is_finished_though_nobody_waits_for_it_any_more(sqlite: Database) -> None:
    store = await sqlite.open()
    await store.submit([unit("a")])
    engine = create_engine(parse_url(sqlite.url))
    async with writing(engine).begin():  # others wait for their turn
        pulling = asyncio.create_task(store.pull("w", 1, 60))
        await asyncio.sleep(0)
        pulling.cancel()
        await asyncio.wait([pulling])
    await engine.dispose()
    await store.close()
    store = await sqlite.open()
    assert (await store.counts()).by_state == {UnitState.LEASED: 1}
    await store.close()
