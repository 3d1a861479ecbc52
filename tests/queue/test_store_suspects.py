"""Expiry, refunds and quarantine: who is charged, and who only looks suspicious."""

from __future__ import annotations

from collections import Counter

import pytest
from queue_database import Database, keys_of, unit, units_named

from volery.queue import JobStore, Publication
from volery.units import Lease, Reason, RefundReason, ResultClass, UnitState

EIGHT = [f"u{number}" for number in range(8)]


async def attempts(store: JobStore) -> dict[str, int]:
    return {record.unit.key: record.attempts async for record in store.records()}


async def lose(store: JobStore, database: Database, worker: str, limit: int = 8) -> list[str]:
    """A process pulls a flight and dies; the keys it had."""
    leases = await store.pull(worker, limit, 60)
    await database.lapse(leases)
    assert await store.reap() == len(leases)
    return keys_of(leases)


async def test_reaping_leaves_running_leases_alone(store: JobStore, database: Database) -> None:
    await store.submit(units_named("a", "b"))
    lapsed, running = await store.pull("w", 2, 60)
    await database.lapse([lapsed])
    assert await store.reap() == 1
    assert await store.reap() == 0
    assert [grant.ended_as for grant in await store.grants()] == ["expired", None]
    assert await store.renew([running.token], 60) == {running.token}


async def test_a_lost_flight_charges_nobody_and_is_ready_at_once(store: JobStore, database: Database) -> None:
    await store.submit(units_named(*EIGHT))
    await lose(store, database, "w")
    assert set((await attempts(store)).values()) == {0}
    assert (await store.counts()).available == 8


async def test_suspects_come_back_in_smaller_flights(store: JobStore, database: Database) -> None:
    await store.submit(units_named(*EIGHT, "clean"))
    await lose(store, database, "w1")
    assert keys_of(await store.pull("w2", 8, 60)) == ["u0", "u1"]
    assert keys_of(await store.pull("w2", 2, 60)) == ["u2"]


async def test_a_clean_head_leaves_suspects_behind_it_for_later(store: JobStore, database: Database) -> None:
    await store.submit(units_named("suspect"))
    await lose(store, database, "w1")
    await store.submit([unit("clean", priority=1)])
    assert keys_of(await store.pull("w2", 8, 60)) == ["clean"]
    assert keys_of(await store.pull("w2", 8, 60)) == ["suspect"]


async def test_a_suspect_lost_again_is_leased_alone(store: JobStore, database: Database) -> None:
    await store.submit(units_named("a", "b"))
    assert await lose(store, database, "w1") == ["a", "b"]
    assert await lose(store, database, "w2") == ["a", "b"]
    assert [(lease.unit.key, lease.alone) for lease in await store.pull("w3", 8, 60)] == [("a", True)]
    assert [(lease.unit.key, lease.alone) for lease in await store.pull("w4", 8, 60)] == [("b", True)]


async def test_nothing_joins_a_unit_that_is_leased_alone(store: JobStore, database: Database) -> None:
    await store.submit([unit("a")])
    await lose(store, database, "w1")
    await lose(store, database, "w2")
    (alone,) = await store.pull("w3", 8, 60)
    assert alone.alone
    await store.submit(units_named("clean", "other"))
    assert await store.pull("w3", 8, 60) == []
    assert keys_of(await store.pull("w4", 1, 60)) == ["clean"]
    await store.complete([Publication(alone.token, "x", ResultClass.SPEECH, 1.0)])
    assert keys_of(await store.pull("w3", 8, 60)) == ["other"]


async def test_a_process_that_holds_leases_drains_before_it_gets_a_unit_alone(
    store: JobStore, database: Database
) -> None:
    await store.submit([unit("a")])
    await lose(store, database, "w1")
    await lose(store, database, "w2")
    await store.submit([unit("mine", priority=1), unit("clean")])
    (mine,) = await store.pull("w3", 1, 60)
    assert await store.pull("w3", 8, 60) == []
    await store.complete([Publication(mine.token, "x", ResultClass.SPEECH, 1.0)])
    assert [(lease.unit.key, lease.alone) for lease in await store.pull("w3", 8, 60)] == [("a", True)]


async def test_only_an_expiry_alone_charges_an_attempt(store: JobStore, database: Database) -> None:
    await store.submit([unit("a")])
    charged = []
    for worker in ("w1", "w2", "w3"):
        await lose(store, database, worker)
        charged.append((await attempts(store))["a"])
    assert charged == [0, 0, 1]
    record = await store.get("a")
    assert record is not None
    assert (record.state, record.reason) == (UnitState.READY, "lease_expired")
    assert record.error is not None
    assert "w3" in record.error


async def test_an_expiry_alone_makes_the_unit_wait(database: Database) -> None:
    store = await database.open(retry_base_seconds=60.0)
    await store.submit([unit("a")])
    for worker in ("w1", "w2", "w3"):
        await lose(store, database, worker)
    assert (await store.counts()).backing_off == 1
    await store.close()


async def test_a_unit_that_kills_its_worker_ends_dead_and_its_neighbours_done(
    store: JobStore, database: Database
) -> None:
    await store.submit(units_named(*EIGHT))
    for process in range(50):
        leases = await store.pull(f"w{process}", 8, 60)
        if any(lease.unit.key == "u3" for lease in leases):
            await database.lapse(leases)
            await store.reap()
        await store.complete([Publication(lease.token, "x", ResultClass.SPEECH, 1.0) for lease in leases])
    records = {record.unit.key: record async for record in store.records()}
    assert (records["u3"].state, records["u3"].attempts) == (UnitState.DEAD, 3)
    neighbours = [records[key] for key in EIGHT if key != "u3"]
    assert {(record.state, record.attempts) for record in neighbours} == {(UnitState.DONE, 0)}
    assert [grant.alone for grant in await store.grants("u3")] == [False, False, True, True, True]


async def test_a_node_preempted_ten_times_charges_nobody(store: JobStore, database: Database) -> None:
    """Each time it works off the suspects that it left before, and is killed in its next whole flight.

    Only a unit that it had alone would be charged: one that was lost twice before, in a row.
    """
    await store.submit(units_named(*(f"u{number}" for number in range(90))))
    for life in range(10):
        while len(leases := await store.pull(f"node-{life}", 8, 60)) < 8:
            await finish(store, leases)
        await database.lapse(leases)
        assert await store.reap() == 8
    while leases := await store.pull("node-10", 8, 60):
        await finish(store, leases)
    records = [record async for record in store.records()]
    assert {(record.state, record.attempts) for record in records} == {(UnitState.DONE, 0)}
    assert Counter(grant.ended_as for grant in await store.grants()) == {"expired": 80, "done": 90}


async def finish(store: JobStore, leases: list[Lease]) -> None:
    results = [Publication(lease.token, "x", ResultClass.SPEECH, 1.0) for lease in leases]
    assert len(await store.complete(results)) == len(leases)


async def test_a_returned_unit_keeps_its_turn(store: JobStore, database: Database) -> None:
    await store.submit(units_named("a", "b", "c"))
    leases = await store.pull("w", 2, 60)
    await store.refund([leases[0].token], RefundReason.DRAIN)
    await database.lapse(leases[1:])
    await store.reap()
    assert keys_of(await store.pull("w", 1, 60)) == ["a"]
    assert keys_of(await store.pull("w", 1, 60)) == ["b"]


@pytest.mark.parametrize("reason", [reason for reason in RefundReason if reason is not RefundReason.QUARANTINE])
async def test_a_refund_is_never_charged(store: JobStore, reason: RefundReason) -> None:
    await store.submit([unit("a")])
    for _ in range(5):
        (lease,) = await store.pull("w", 1, 60)
        assert await store.refund([lease.token, "unknown"], reason) == {lease.token}
    assert await attempts(store) == {"a": 0}
    assert {grant.ended_as for grant in await store.grants()} == {f"refund:{reason}"}


async def test_a_unit_is_charged_from_its_second_quarantine_on(store: JobStore) -> None:
    await store.submit([unit("a")])
    charged = []
    for _ in range(4):
        (lease,) = await store.pull("w", 1, 60)
        assert await store.refund([lease.token], RefundReason.QUARANTINE) == {lease.token}
        charged.append((await attempts(store))["a"])
    assert charged == [0, 1, 2, 3]
    record = await store.get("a")
    assert record is not None
    assert (record.state, record.reason) == (UnitState.DEAD, "quarantined_twice")
    assert {grant.ended_as for grant in await store.grants()} == {"refund:quarantine"}


async def test_a_flight_s_quarantine_charges_only_those_who_saw_one_before(store: JobStore) -> None:
    await store.submit([unit("old")])
    (lease,) = await store.pull("w", 1, 60)
    await store.refund([lease.token], RefundReason.QUARANTINE)
    await store.submit([unit("new")])
    leases = await store.pull("w", 2, 60)
    assert await store.refund([lease.token for lease in leases], RefundReason.QUARANTINE) == {
        lease.token for lease in leases
    }
    assert await attempts(store) == {"old": 1, "new": 0}


async def test_a_unit_that_failed_before_keeps_its_charge_through_refunds(store: JobStore) -> None:
    await store.submit([unit("a")])
    (lease,) = await store.pull("w", 1, 60)
    await store.fail(lease.token, Reason.SPEECH_FAILED, "once")
    (lease,) = await store.pull("w", 1, 60)
    await store.refund([lease.token], RefundReason.DRAIN)
    assert await attempts(store) == {"a": 1}
