"""Pulling flights, and what a holder may do with a lease."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from queue_database import Database, keys_of, unit, units_named
from sqlalchemy.exc import IntegrityError

from volery.queue import JobStore, Publication
from volery.units import Lease, Reason, RefundReason, ResultClass, UnitState


def publication(lease: Lease) -> Publication:
    return Publication(lease.token, f"results/{lease.token}.json", ResultClass.SPEECH, 12.5)


async def test_a_pull_grants_no_more_than_was_asked_for(store: JobStore) -> None:
    await store.submit(units_named("a", "b", "c"))
    assert keys_of(await store.pull("w", 2, 60)) == ["a", "b"]
    assert keys_of(await store.pull("w", 2, 60)) == ["c"]
    assert await store.pull("w", 2, 60) == []
    assert await store.pull("w", 0, 60) == []


async def test_a_flight_comes_in_the_queue_s_order(store: JobStore) -> None:
    await store.submit([unit("low", priority=-1), unit("first"), unit("second"), unit("high", priority=5)])
    assert keys_of(await store.pull("w", 8, 60)) == ["high", "first", "second", "low"]


async def test_every_grant_has_a_token_of_its_own(store: JobStore) -> None:
    await store.submit(units_named(*(str(number) for number in range(32))))
    tokens = {lease.token for lease in await store.pull("w", 32, 60)}
    assert len(tokens) == 32
    assert all(len(token) == 32 for token in tokens)
    await store.refund(list(tokens), RefundReason.DRAIN)
    assert tokens.isdisjoint(lease.token for lease in await store.pull("w", 32, 60))


async def test_a_grant_is_recorded_from_its_start_to_its_end(store: JobStore) -> None:
    await store.submit([unit("a")])
    (lease,) = await store.pull("w", 1, 60)
    (running,) = await store.grants("a")
    assert (running.token, running.key, running.worker, running.alone) == (lease.token, "a", "w", False)
    assert (running.ended_at, running.ended_as) == (None, None)
    assert running.granted_at == pytest.approx(lease.expires_at - 60, abs=0.01)
    await store.complete([publication(lease)])
    (ended,) = await store.grants("a")
    assert ended.ended_as == "done"
    assert ended.ended_at is not None
    assert ended.ended_at >= running.granted_at


async def test_the_database_itself_refuses_a_grant_of_no_unit_and_a_second_running_one(
    store: JobStore, database: Database
) -> None:
    await store.submit([unit("a")])
    await store.pull("w", 1, 60)
    for token, unit_id in [("orphan", "999"), ("second", "unit_id")]:
        with pytest.raises(IntegrityError):
            await database.execute(
                "INSERT INTO grants (token, unit_id, worker, granted_at, alone, priority, rank) "
                f"SELECT '{token}', {unit_id}, worker, granted_at, alone, priority, rank FROM grants"
            )


async def test_a_completed_unit_has_its_result_and_no_charge(store: JobStore) -> None:
    await store.submit([unit("a")])
    (lease,) = await store.pull("w", 1, 60)
    assert await store.complete([publication(lease)]) == {lease.token}
    record = await store.get("a")
    assert record is not None
    assert (record.state, record.attempts, record.result_class) == (UnitState.DONE, 0, ResultClass.SPEECH)
    assert (record.artifact, record.duration_s) == (f"results/{lease.token}.json", 12.5)
    assert record.finished_at is not None


async def test_a_batch_of_results_commits_only_those_whose_leases_hold(store: JobStore, database: Database) -> None:
    await store.submit(units_named("a", "b", "c"))
    leases = await store.pull("w", 3, 60)
    await database.lapse(leases[1:2])
    held = await store.complete([publication(lease) for lease in leases])
    assert held == {leases[0].token, leases[2].token}
    assert {record.unit.key async for record in store.records(states=[UnitState.DONE])} == {"a", "c"}


async def test_a_result_is_committed_once(store: JobStore) -> None:
    await store.submit([unit("a")])
    (lease,) = await store.pull("w", 1, 60)
    await store.complete([publication(lease)])
    assert await store.complete([Publication(lease.token, "other", ResultClass.NO_SPEECH, 1.0)]) == frozenset()
    record = await store.get("a")
    assert record is not None
    assert record.artifact == f"results/{lease.token}.json"


async def test_renewal_extends_the_lease(store: JobStore, database: Database) -> None:
    await store.submit([unit("a")])
    (lease,) = await store.pull("w", 1, 10)
    assert await store.renew([lease.token, "unknown"], 500) == {lease.token}
    (row,) = await database.execute("SELECT expires_at FROM units")
    assert row.expires_at == pytest.approx(lease.expires_at + 490, abs=60)


async def test_a_rejected_unit_ends_with_its_reason(store: JobStore) -> None:
    await store.submit([unit("a")])
    (lease,) = await store.pull("w", 1, 60)
    assert await store.reject(lease.token, Reason.AUDIO_EMPTY, "a: no bytes")
    record = await store.get("a")
    assert record is not None
    assert (record.state, record.reason, record.error) == (UnitState.REJECTED, "audio_empty", "a: no bytes")
    assert record.attempts == 0
    assert [grant.ended_as for grant in await store.grants("a")] == ["rejected"]


async def test_an_error_with_odd_characters_is_kept(store: JobStore) -> None:
    await store.submit([unit("a")])
    (lease,) = await store.pull("w", 1, 60)
    assert await store.reject(lease.token, Reason.AUDIO_MISSING, "no \udcff\0 file" + "." * 10_000)
    record = await store.get("a")
    assert record is not None
    assert record.error is not None
    assert record.error.startswith(r"no \udcff\x00 file")


async def test_a_failed_unit_is_charged_and_waits_longer_each_time(database: Database) -> None:
    store = await database.open(max_attempts=5, retry_base_seconds=10.0, retry_max_seconds=25.0)
    await store.submit([unit("a")])
    waits = []
    for _ in range(3):
        (lease,) = await store.pull("w", 1, 60)
        assert await store.fail(lease.token, Reason.SPEECH_FAILED, "boom") is UnitState.READY
        assert await store.pull("w", 1, 60) == []
        (row,) = await database.execute(
            "SELECT u.available_at - g.ended_at AS wait FROM units u JOIN grants g ON g.token = u.token"
        )
        waits.append(row.wait)
        await database.forward("a")
    await store.close()
    assert waits == pytest.approx([10.0, 20.0, 25.0], abs=1.0)


async def test_a_unit_whose_attempts_are_used_up_is_dead_with_its_last_error(database: Database) -> None:
    store = await database.open(max_attempts=2)
    await store.submit([unit("a")])
    for error, state in [("first", UnitState.READY), ("second", UnitState.DEAD)]:
        (lease,) = await store.pull("w", 1, 60)
        assert await store.fail(lease.token, Reason.SPEECH_FAILED, error) is state
    record = await store.get("a")
    assert record is not None
    assert (record.state, record.attempts, record.reason) == (UnitState.DEAD, 2, "speech_failed")
    assert record.error == "second"
    assert record.finished_at is not None
    assert [grant.ended_as for grant in await store.grants("a")] == ["failed", "failed"]
    assert await store.pull("w", 1, 60) == []
    await store.close()


async def test_a_lease_says_how_many_attempts_were_charged_before(store: JobStore) -> None:
    await store.submit([unit("a")])
    (lease,) = await store.pull("w", 1, 60)
    assert lease.attempts == 0
    await store.fail(lease.token, Reason.SPEECH_FAILED, "once")
    assert [lease.attempts for lease in await store.pull("w", 1, 60)] == [1]


Statement = Callable[[JobStore, str], Awaitable[object]]
HOLDERS: dict[str, tuple[Statement, object]] = {
    "renew": (lambda store, token: store.renew([token], 60), frozenset()),
    "complete": (lambda store, token: store.complete([Publication(token, "x", ResultClass.SPEECH, 1.0)]), frozenset()),
    "reject": (lambda store, token: store.reject(token, Reason.AUDIO_EMPTY, "late"), False),
    "fail": (lambda store, token: store.fail(token, Reason.SPEECH_FAILED, "late"), None),
    "refund": (lambda store, token: store.refund([token], RefundReason.DRAIN), frozenset()),
    "refund of a quarantine": (lambda store, token: store.refund([token], RefundReason.QUARANTINE), frozenset()),
}


async def rows(database: Database) -> list[object]:
    return [
        *await database.execute("SELECT * FROM units ORDER BY id"),
        *await database.execute("SELECT * FROM grants ORDER BY id"),
    ]


@pytest.mark.parametrize("name", HOLDERS)
async def test_a_lapsed_lease_can_change_nothing(store: JobStore, database: Database, name: str) -> None:
    await store.submit([unit("a")])
    (lease,) = await store.pull("w", 1, 60)
    await database.lapse([lease])
    before = await rows(database)
    statement, refused = HOLDERS[name]
    assert await statement(store, lease.token) == refused
    assert await rows(database) == before


@pytest.mark.parametrize("name", HOLDERS)
async def test_a_lease_granted_anew_is_not_the_old_holder_s(store: JobStore, database: Database, name: str) -> None:
    await store.submit([unit("a")])
    (old,) = await store.pull("w", 1, 60)
    await database.lapse([old])
    await store.reap()
    (new,) = await store.pull("other", 1, 60)
    before = await rows(database)
    statement, refused = HOLDERS[name]
    assert await statement(store, old.token) == refused
    assert await rows(database) == before
    assert await store.renew([new.token], 60) == {new.token}


@pytest.mark.parametrize("name", HOLDERS)
async def test_a_cancelled_unit_s_lease_can_change_nothing(store: JobStore, database: Database, name: str) -> None:
    await store.submit([unit("a")])
    (lease,) = await store.pull("w", 1, 60)
    await store.cancel(["a"])
    before = await rows(database)
    statement, refused = HOLDERS[name]
    assert await statement(store, lease.token) == refused
    assert await rows(database) == before
