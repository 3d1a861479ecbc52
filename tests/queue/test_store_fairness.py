"""Owners who wait together take turns."""

from __future__ import annotations

from queue_database import keys_of, unit, units_named

from volery.queue import JobStore
from volery.units import Reason, RefundReason, UnitState


async def granted_owners(store: JobStore, flights: int, limit: int = 8) -> list[str]:
    return [lease.unit.owner for _ in range(flights) for lease in await store.pull("w", limit, 60)]


def many(owner: str, count: int, first: int = 0) -> list[str]:
    return [f"{owner}{number}" for number in range(first, first + count)]


async def test_one_unit_does_not_wait_behind_another_owner_s_thousand(store: JobStore) -> None:
    await store.submit(units_named(*many("a", 1000), owner="a"))
    await store.submit([unit("b", owner="b")])
    assert "b" in keys_of(await store.pull("w", 3, 60))


async def test_a_newcomer_does_not_wait_behind_what_is_half_done(store: JobStore) -> None:
    await store.submit(units_named(*many("a", 1000), owner="a"))
    await granted_owners(store, flights=16, limit=32)
    await store.submit([unit("b", owner="b")])
    assert "b" in keys_of(await store.pull("w", 3, 60))


async def test_owners_who_wait_together_take_turns(store: JobStore) -> None:
    await store.submit(units_named(*many("a", 40), owner="a"))
    await store.submit(units_named(*many("b", 40), owner="b"))
    owners = await granted_owners(store, flights=5)
    assert owners.count("a") == owners.count("b") == 20


async def test_an_owner_who_was_idle_has_saved_nothing_up(store: JobStore) -> None:
    await store.submit([unit("b", owner="b")])
    await store.submit(units_named(*many("a", 200), owner="a"))
    await granted_owners(store, flights=10)
    await store.submit(units_named(*many("b", 100), owner="b"))
    owners = await granted_owners(store, flights=5)
    assert abs(owners.count("a") - owners.count("b")) <= 1


async def test_an_owner_who_was_served_owes_nothing(store: JobStore) -> None:
    await store.submit(units_named(*many("a", 100), owner="a"))
    await granted_owners(store, flights=13)
    await store.submit(units_named(*many("a", 20, first=100), owner="a"))
    await store.submit(units_named(*many("b", 20), owner="b"))
    owners = await granted_owners(store, flights=2)
    assert owners.count("a") == owners.count("b") == 8


async def test_cancelled_units_do_not_set_their_owner_back(store: JobStore) -> None:
    await store.submit(units_named(*many("a", 500), owner="a"))
    await store.cancel(many("a", 500))
    await store.submit(units_named(*many("b", 500), owner="b"))
    await store.submit([unit("again", owner="a")])
    assert "again" in keys_of(await store.pull("w", 3, 60))


async def test_a_unit_that_returned_late_lets_no_newcomer_jump_the_queue(store: JobStore) -> None:
    await store.submit(units_named(*many("a", 200), owner="a"))
    first, *_ = await store.pull("w", 32, 60)
    await granted_owners(store, flights=2, limit=32)
    await store.refund([first.token], RefundReason.DRAIN)
    await store.submit(units_named(*many("c", 200), owner="c"))
    owners = await granted_owners(store, flights=4)
    assert abs(owners.count("a") - owners.count("c")) <= 2


async def test_requeued_units_take_turns_like_new_ones(store: JobStore) -> None:
    await store.submit(units_named(*many("a", 64), owner="a"))
    for _ in range(2):
        for lease in await store.pull("w", 32, 60):
            await store.reject(lease.token, Reason.AUDIO_EMPTY, "empty")
    await store.submit(units_named(*many("b", 64), owner="b"))
    assert await store.requeue(states=[UnitState.REJECTED]) == 64
    owners = await granted_owners(store, flights=4)
    assert owners.count("a") == owners.count("b") == 16


async def test_one_owner_s_units_keep_the_order_of_submission(store: JobStore) -> None:
    await store.submit(units_named(*many("a", 20), owner="a"))
    await store.submit(units_named(*many("a", 20, first=20), owner="a"))
    assert [key for _ in range(5) for key in keys_of(await store.pull("w", 8, 60))] == many("a", 40)


async def test_turns_are_taken_within_a_priority(store: JobStore) -> None:
    await store.submit(units_named(*many("a", 10), owner="a", priority=1))
    await store.submit([unit("b", owner="b")])
    assert keys_of(await store.pull("w", 11, 60)) == [*many("a", 10), "b"]
