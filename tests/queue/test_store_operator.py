"""What an operator does: cancel, requeue, count, look."""

from __future__ import annotations

import pytest
from queue_database import Database, keys_of, unit, units_named

from volery.queue import JobStore, Publication
from volery.units import Reason, RefundReason, ResultClass, UnitState

OUTCOMES = ["done", "rejected", "dead", "cancelled"]


async def finish(store: JobStore, *, done: str, rejected: str, dead: str, cancelled: str) -> None:
    """Bring four ready units to the four ends."""
    leases = {lease.unit.key: lease.token for lease in await store.pull("w", 32, 60)}
    await store.complete([Publication(leases[done], "artifact", ResultClass.SPEECH, 1.0)])
    await store.reject(leases[rejected], Reason.AUDIO_EMPTY, "empty")
    await store.cancel([cancelled])
    token = leases[dead]
    while await store.fail(token, Reason.SPEECH_FAILED, "boom") is UnitState.READY:
        (lease,) = await store.pull("w", 1, 60)
        token = lease.token


@pytest.fixture
async def finished(store: JobStore) -> JobStore:
    """Four units named after the ways they ended."""
    await store.submit(units_named(*OUTCOMES))
    await finish(store, done="done", rejected="rejected", dead="dead", cancelled="cancelled")
    return store


async def test_every_unit_has_an_end(finished: JobStore) -> None:
    assert {record.unit.key: record.state.value async for record in finished.records()} == {
        outcome: outcome for outcome in OUTCOMES
    }
    assert (await finished.counts()).unfinished == 0


async def test_a_requeued_unit_has_a_clean_record(finished: JobStore) -> None:
    assert await finished.requeue(OUTCOMES) == 4
    for record in [record async for record in finished.records()]:
        assert (record.state, record.attempts, record.reason, record.error) == (UnitState.READY, 0, None, None)
        assert (record.artifact, record.result_class, record.duration_s, record.finished_at) == (None,) * 4
    assert (await finished.counts()).available == 4


async def test_a_requeued_unit_is_no_suspect_and_has_seen_no_quarantine(store: JobStore, database: Database) -> None:
    await store.submit([unit("a")])
    leases = await store.pull("w", 1, 60)
    await store.refund([leases[0].token], RefundReason.QUARANTINE)
    await database.lapse(await store.pull("w", 1, 60))
    await store.reap()
    await store.cancel(["a"])
    await store.requeue(["a"])
    (row,) = await database.execute("SELECT suspicion, quarantines FROM units")
    assert tuple(row) == (0, 0)


async def test_requeue_takes_all_units_in_the_states_it_is_given(finished: JobStore) -> None:
    assert await finished.requeue(states=[UnitState.DEAD, UnitState.REJECTED]) == 2
    assert {record.unit.key async for record in finished.records(states=[UnitState.READY])} == {"dead", "rejected"}


async def test_a_unit_named_many_times_is_requeued_once(finished: JobStore) -> None:
    assert await finished.requeue(["done"] * 1200) == 1


async def test_requeue_leaves_unfinished_units_alone(store: JobStore) -> None:
    await store.submit(units_named("leased", "ready"))
    (lease,) = await store.pull("w", 1, 60)
    assert await store.requeue(["leased", "ready", "unknown"]) == 0
    assert await store.requeue(states=[UnitState.LEASED, UnitState.READY]) == 0
    assert await store.renew([lease.token], 60) == {lease.token}


async def test_requeue_and_cancel_of_nothing_touch_nothing(finished: JobStore) -> None:
    assert await finished.requeue() == 0
    assert await finished.cancel() == 0
    assert (await finished.counts()).unfinished == 0


async def test_cancelling_ends_the_running_grant(store: JobStore) -> None:
    await store.submit(units_named("leased", "ready", "kept"))
    await store.pull("w", 1, 60)
    assert await store.cancel(["leased", "ready", "unknown"]) == 2
    assert [grant.ended_as for grant in await store.grants()] == ["cancelled"]
    assert keys_of(await store.pull("w", 8, 60)) == ["kept"]


async def test_finished_units_cannot_be_cancelled(finished: JobStore) -> None:
    assert await finished.cancel(OUTCOMES) == 0
    assert await finished.cancel(all_unfinished=True) == 0


async def test_everything_unfinished_can_be_cancelled_at_once(store: JobStore) -> None:
    await store.submit(units_named("a", "b", "c"))
    await store.pull("w", 1, 60)
    assert await store.cancel(all_unfinished=True) == 3
    assert (await store.counts()).by_state == {UnitState.CANCELLED: 3}


async def test_counts_tell_what_could_be_leased_now(database: Database) -> None:
    store = await database.open(retry_base_seconds=600.0)
    assert (await store.counts()).oldest_available_s is None
    await store.submit(units_named("leased", "waiting", "old", "young"))
    _, waiting = await store.pull("w", 2, 60)
    await store.fail(waiting.token, Reason.SPEECH_FAILED, "boom")
    await database.execute("UPDATE units SET available_at = available_at - 1000 WHERE key = 'old'")
    counts = await store.counts()
    assert counts.by_state == {UnitState.LEASED: 1, UnitState.READY: 3}
    assert (counts.available, counts.backing_off, counts.unfinished) == (2, 1, 4)
    assert counts.oldest_available_s == pytest.approx(1000, abs=60)
    await store.close()


async def test_records_are_chosen_by_state_and_key_in_order_of_submission(store: JobStore) -> None:
    names = [f"u{number}" for number in range(1200)]
    await store.submit(units_named(*names))
    await store.cancel(names[:5])
    named = [record.unit.key async for record in store.records(keys=["unknown", *reversed(names[:1100])])]
    assert named == names[:1100]
    both = store.records(keys=names[3:8], states=[UnitState.READY])
    assert [record.unit.key async for record in both] == names[5:8]


async def test_grants_come_in_the_order_they_were_made(store: JobStore) -> None:
    await store.submit(units_named("a", "b"))
    for worker in ("w1", "w2"):
        leases = await store.pull(worker, 2, 60)
        await store.refund([lease.token for lease in leases], RefundReason.DRAIN)
    assert [(grant.key, grant.worker) for grant in await store.grants()] == [
        ("a", "w1"),
        ("b", "w1"),
        ("a", "w2"),
        ("b", "w2"),
    ]
    assert [grant.worker for grant in await store.grants("b")] == ["w1", "w2"]
