"""What the store says may go, and how it lets it go."""

from __future__ import annotations

import pytest
from queue_database import Database, units_named
from sqlalchemy import update

from volery.queue import JobStore, Publication
from volery.queue.pruning import Age, OldUnit, Standing
from volery.queue.tables import grants, units
from volery.units import Lease, Reason, RefundReason, ResultClass

DAY = 86_400.0


async def lease(store: JobStore, *keys: str, **fields: object) -> dict[str, Lease]:
    """Submit units and lease them."""
    await store.submit(units_named(*keys, **fields))
    return {lease.unit.key: lease for lease in await store.pull("w", 32, 60)}


def artifact(token: str) -> str:
    return f"results/{token[:2]}/{token}.json"


async def finish(store: JobStore, lease: Lease) -> str:
    """Make a leased unit done; the name of its result."""
    name = artifact(lease.token)
    assert await store.complete([Publication(lease.token, name, ResultClass.SPEECH, 1.0)])
    return name


async def standing(store: JobStore, lease: Lease) -> Standing:
    return (await store.pruning().standings({lease.token: artifact(lease.token)}))[lease.token]


async def grow_old(database: Database, days: float) -> None:
    """Move every end in the store into the past."""
    await database.execute(update(units).values(finished_at=units.c.finished_at - days * DAY))
    await database.execute(update(grants).values(ended_at=grants.c.ended_at - days * DAY))


async def old(store: JobStore, days: float = 30, *, done: bool = False) -> list[OldUnit]:
    return [unit async for page in store.pruning().old_units(Age(days * DAY, done)) for unit in page]


async def prune(store: JobStore, days: float = 30, *, done: bool = False) -> list[str]:
    """Prune old units; the keys of those that were listed."""
    listed = await old(store, days, done=done)
    await store.pruning().delete_units(listed, Age(days * DAY, done))
    return [unit.key for unit in listed]


async def prune_grants(store: JobStore, days: float = 30, *, done: bool = False) -> int:
    pruning = store.pruning()
    return sum([await pruning.delete_grants(page) async for page in pruning.old_grants(Age(days * DAY, done))])


async def keys(store: JobStore) -> list[str]:
    return [record.unit.key async for record in store.records()]


async def tokens(store: JobStore) -> set[str]:
    return {grant.token for grant in await store.grants()}


# Results


async def test_the_result_of_a_done_unit_is_named(store: JobStore) -> None:
    leases = await lease(store, "a")
    await finish(store, leases["a"])
    assert await standing(store, leases["a"]) is Standing.NAMED


async def test_what_is_written_under_a_running_lease_may_become_a_result(store: JobStore) -> None:
    leases = await lease(store, "a")
    assert await standing(store, leases["a"]) is Standing.RUNNING


async def test_a_lapsed_lease_runs_until_it_is_reaped_and_then_its_result_is_nobodys(
    store: JobStore, database: Database
) -> None:
    leases = await lease(store, "a")
    await database.lapse(list(leases.values()))
    assert await standing(store, leases["a"]) is Standing.RUNNING
    await store.reap()
    assert await standing(store, leases["a"]) is Standing.UNNAMED


async def test_what_was_written_under_a_lease_that_ended_without_a_commit_is_nobodys(store: JobStore) -> None:
    leases = await lease(store, "failed", "refunded", "rejected", "cancelled")
    await store.fail(leases["failed"].token, Reason.SPEECH_FAILED, "x")
    await store.refund([leases["refunded"].token], RefundReason.DRAIN)
    await store.reject(leases["rejected"].token, Reason.AUDIO_EMPTY, "x")
    await store.cancel(["cancelled"])
    assert {await standing(store, one) for one in leases.values()} == {Standing.UNNAMED}


async def test_the_result_of_a_unit_that_was_requeued_or_replaced_is_nobodys(store: JobStore) -> None:
    leases = await lease(store, "requeued", "replaced")
    for one in leases.values():
        await finish(store, one)
    await store.requeue(["requeued"])
    await store.submit(units_named("replaced", audio_uri="file:///other.wav"), replace=True)
    assert {await standing(store, one) for one in leases.values()} == {Standing.UNNAMED}


async def test_a_result_of_a_lease_that_the_store_never_granted_is_unknown(store: JobStore) -> None:
    await lease(store, "a")
    found = await store.pruning().standings({"ab12": "results/ab/ab12.json"})
    assert found == {"ab12": Standing.UNKNOWN}


async def test_a_result_that_a_unit_names_is_named_whatever_lease_it_was_written_under(
    store: JobStore, database: Database
) -> None:
    leases = await lease(store, "a", "b")
    await finish(store, leases["a"])
    await store.fail(leases["b"].token, Reason.SPEECH_FAILED, "x")
    await database.execute(update(units).where(units.c.key == "a").values(artifact=artifact(leases["b"].token)))
    assert await standing(store, leases["b"]) is Standing.NAMED


async def test_many_results_are_judged_at_once(store: JobStore) -> None:
    leases = await lease(store, "a")
    await finish(store, leases["a"])
    asked = {f"{number:04x}": artifact(f"{number:04x}") for number in range(1200)}
    found = await store.pruning().standings({**asked, leases["a"].token: artifact(leases["a"].token)})
    assert found.pop(leases["a"].token) is Standing.NAMED
    assert list(found.values()) == [Standing.UNKNOWN] * 1200


# Units


async def test_only_finished_units_are_pruned_and_only_once_they_are_old(store: JobStore, database: Database) -> None:
    leases = await lease(store, "rejected", "leased", "cancelled", "young")
    await store.reject(leases["rejected"].token, Reason.AUDIO_EMPTY, "x")
    await store.cancel(["cancelled"])
    assert await prune(store) == []
    await grow_old(database, 31)
    await store.reject(leases["young"].token, Reason.AUDIO_EMPTY, "x")
    assert sorted(await prune(store)) == ["cancelled", "rejected"]
    assert sorted(await keys(store)) == ["leased", "young"]
    assert {grant.key for grant in await store.grants()} == {"leased", "young"}


async def test_a_done_unit_is_pruned_only_where_that_is_asked_for(store: JobStore, database: Database) -> None:
    leases = await lease(store, "a")
    name = await finish(store, leases["a"])
    await grow_old(database, 31)
    assert await prune(store) == []
    [unit] = await old(store, done=True)
    assert await store.pruning().results_of([unit]) == [name]
    assert await prune(store, done=True) == ["a"]
    assert await keys(store) == []
    assert await tokens(store) == set()


async def test_a_result_that_another_unit_names_does_not_go_with_a_unit(store: JobStore, database: Database) -> None:
    leases = await lease(store, "a", "b")
    name = await finish(store, leases["a"])
    await grow_old(database, 31)
    await finish(store, leases["b"])
    await database.execute(update(units).where(units.c.key == "b").values(artifact=name))
    [unit] = await old(store, done=True)
    assert unit.key == "a"
    assert await store.pruning().results_of([unit]) == []


async def test_a_unit_that_was_requeued_since_it_was_listed_is_not_pruned(store: JobStore, database: Database) -> None:
    leases = await lease(store, "a", "b", "c")
    await finish(store, leases["a"])
    await finish(store, leases["b"])
    await grow_old(database, 31)
    listed = await old(store, done=True)
    await store.requeue(["a"])
    pruned = await store.pruning().delete_units(listed, Age(30 * DAY, done=True))
    assert (pruned.units, pruned.grants) == (1, 1)
    assert await keys(store) == ["a", "c"]


async def test_a_unit_that_was_done_anew_since_it_was_listed_is_not_pruned(store: JobStore, database: Database) -> None:
    leases = await lease(store, "a")
    await finish(store, leases["a"])
    await grow_old(database, 31)
    listed = await old(store, done=True)
    await store.requeue(["a"])
    [again] = await store.pull("w", 1, 60)
    await finish(store, again)
    assert (await store.pruning().delete_units(listed, Age(30 * DAY, done=True))).units == 0
    assert await keys(store) == ["a"]


async def test_many_units_are_pruned_a_page_at_a_time(store: JobStore, database: Database) -> None:
    await store.submit(units_named(*(f"u{number}" for number in range(1100))))
    await store.cancel(all_unfinished=True)
    await grow_old(database, 31)
    pages = [page async for page in store.pruning().old_units(Age(30 * DAY))]
    assert [len(page) for page in pages] == [500, 500, 100]
    for page in pages:
        await store.pruning().delete_units(page, Age(30 * DAY))
    assert await keys(store) == []


# Grants


async def test_old_grants_go_and_the_latest_of_each_unit_stays(store: JobStore, database: Database) -> None:
    first = await lease(store, "a", "b")
    for one in first.values():
        await store.fail(one.token, Reason.SPEECH_FAILED, "x")
    second = {one.unit.key: one for one in await store.pull("w", 32, 60)}
    await finish(store, second["a"])
    await grow_old(database, 31)
    await finish(store, second["b"])
    assert await prune_grants(store) == 2
    assert await tokens(store) == {one.token for one in second.values()}
    assert await standing(store, second["a"]) is Standing.NAMED


async def test_young_and_running_grants_stay(store: JobStore, database: Database) -> None:
    first = await lease(store, "a")
    await store.fail(first["a"].token, Reason.SPEECH_FAILED, "x")
    await store.pull("w", 1, 60)
    await grow_old(database, 29)
    assert await prune_grants(store) == 0


async def test_grants_that_go_with_their_units_are_counted_with_those(store: JobStore, database: Database) -> None:
    leases = await lease(store, "a", "b")
    for one in leases.values():
        await store.reject(one.token, Reason.AUDIO_EMPTY, "x")
    await grow_old(database, 31)
    assert await store.pruning().grants_of(await old(store)) == 2
    assert [page async for page in store.pruning().old_grants(Age(30 * DAY))] == []


@pytest.mark.parametrize("waiting", [True, False])
async def test_who_waits_keeps_his_place_before_those_who_come_after_a_pruning(
    store: JobStore, database: Database, waiting: bool
) -> None:
    """Ranks are counted on from the last that was granted: that one must not be forgotten."""
    await store.submit(units_named(*(f"early{number}" for number in range(5)), owner="early"))
    for one in await store.pull("w", 3, 60):
        await store.reject(one.token, Reason.AUDIO_EMPTY, "x")
    if not waiting:
        await store.cancel(all_unfinished=True)
    await grow_old(database, 31)
    await prune(store)
    await prune_grants(store)
    await store.submit(units_named("late", owner="late"))
    order = [one.unit.key for one in await store.pull("w", 32, 60)]
    assert order == (["early3", "late", "early4"] if waiting else ["late"])


async def test_a_unit_that_was_requeued_keeps_its_place_after_its_old_grant_could_go(
    store: JobStore, database: Database
) -> None:
    for one in (await lease(store, "a", "b", "c", owner="early")).values():
        await store.reject(one.token, Reason.AUDIO_EMPTY, "x")
    await grow_old(database, 31)
    await store.requeue(["c"])
    await prune(store)
    await prune_grants(store)
    await store.submit(units_named("late", owner="late"))
    assert [one.unit.key for one in await store.pull("w", 32, 60)] == ["c", "late"]
