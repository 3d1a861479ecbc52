"""Leases in a worker's hands: renewed, noticed when lost, and never relied upon too long."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from time import monotonic

from volery.units import PreparedUnit, StoreError, Transcript, UnitError
from volery.worker.leases import LeaseKeeper
from volery.worker.worker import Ending
from worker.stubs import Bench, digest_each
from worker.virtual import VirtualUnit, World


async def _wait_until(condition: threading.Event) -> None:
    await asyncio.get_running_loop().run_in_executor(None, condition.wait)


async def test_a_renewal_extends_the_lease_in_the_store_and_here(bench: Bench) -> None:
    await bench.submit(0.1)
    keeper = LeaseKeeper(bench.store, 60.0)
    leases = await bench.store.pull("me", 1, 0.5)
    (held,) = keeper.hold(leases, monotonic() - 60.0)
    assert not held.holds
    await keeper.renew()
    assert held.holds


async def test_a_lease_that_the_store_no_longer_knows_is_lost(bench: Bench) -> None:
    await bench.submit(0.1)
    keeper = LeaseKeeper(bench.store, 60.0)
    (held,) = keeper.hold(await bench.store.pull("me", 1, 60.0), monotonic())
    await bench.store.cancel(["u0"])
    await keeper.renew()
    assert held.lost.is_set()
    assert keeper.tokens == ()


async def test_while_the_store_is_away_a_lease_holds_until_it_must_have_lapsed(bench: Bench) -> None:
    await bench.submit(0.1, 0.1)
    keeper = LeaseKeeper(bench.store, 60.0)
    young, old = await bench.store.pull("me", 2, 60.0)
    (held_young,) = keeper.hold([young], monotonic())
    (held_old,) = keeper.hold([old], monotonic() - 61.0)

    async def away(*_: object) -> frozenset[str]:
        raise StoreError("the database is down")

    bench.store.renew = away  # type: ignore[method-assign]
    await keeper.renew()
    assert held_young.holds
    assert held_old.lost.is_set()


def test_a_store_that_is_away_for_less_than_half_a_lease_costs_no_lease() -> None:
    def away(world: World) -> None:
        world.store.away_until = 95.0

    world = World([VirtualUnit(claims=28.0, gpu_s=300.0)], call_s=1.0, lease_seconds=120.0, settings={"lanes": 1})
    world.run((39.0, away))
    assert world.store.endings == {"t1": "done"}


async def test_a_flight_longer_than_its_lease_is_kept_by_renewal(bench: Bench) -> None:
    await bench.submit(0.1)
    renewals = 0
    renew = bench.store.renew
    enough = threading.Event()

    async def counted(tokens: Sequence[str], lease_seconds: float) -> frozenset[str]:
        nonlocal renewals
        held = await renew(tokens, lease_seconds)
        renewals += 1
        if renewals == 8:
            enough.set()
        return held

    bench.store.renew = counted  # type: ignore[method-assign]

    def process(group: Sequence[PreparedUnit]) -> list[Transcript | UnitError]:
        enough.wait()  # several leases long
        return digest_each(group)

    await bench.worker(process, lease_seconds=1.0).run()
    assert await bench.endings() == {"u0": ["done"]}


async def test_a_lease_lost_while_its_flight_waits_drops_that_unit_and_the_rest_go_on(bench: Bench) -> None:
    await bench.submit(*[0.1] * 4)
    first_group, go_on = threading.Event(), threading.Event()
    groups: list[list[str]] = []

    def process(group: Sequence[PreparedUnit]) -> list[Transcript | UnitError]:
        groups.append([one.unit.key for one in group])
        first_group.set()
        go_on.wait()
        return digest_each(group)

    worker = bench.worker(process, flight_units=2)
    run = asyncio.create_task(worker.run())
    await _wait_until(first_group)
    while len(await bench.store.grants()) < 4:
        await asyncio.sleep(0.01)
    waiting = ({"u0", "u1", "u2", "u3"} - set(groups[0])).pop()
    await bench.store.cancel([waiting])
    await worker._keeper.renew()
    while worker.budget.in_use > 0.35:  # the dropped unit's share comes back at once
        await asyncio.sleep(0.01)
    go_on.set()
    assert await run is Ending.FINISHED
    assert waiting not in [key for group in groups for key in group]
    assert sorted((await bench.states()).values()) == ["cancelled", "done", "done", "done"]


async def test_a_lease_that_lapsed_while_the_loop_was_blocked_is_noticed_and_nothing_is_published(bench: Bench) -> None:
    await bench.submit(0.1)
    blocked = threading.Event()

    def process(group: Sequence[PreparedUnit]) -> list[Transcript | UnitError]:
        if not blocked.is_set():
            blocked.set()
            loop.call_soon_threadsafe(time.sleep, 1.5)  # the whole event loop stands still, past the lease
            time.sleep(0.2)
        return digest_each(group)

    loop = asyncio.get_running_loop()
    await bench.worker(process, lease_seconds=1.0).run()
    endings = (await bench.endings())["u0"]
    assert endings[0] == "expired"
    assert endings[-1] == "done"
    assert endings.count("done") == 1
    assert await bench.attempts() == {"u0": 0}
