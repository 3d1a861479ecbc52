"""The lanes under everything that can happen to them, on a virtual clock.

Lanes, budgets, leases, IO queue and publication are the real ones; threads, models, audio and
store are simulated around them.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from volery.units import Clip, UnitState
from volery.worker.timeline import Phase
from volery.worker.worker import Ending
from worker.virtual import VirtualUnit, World

Disturbance = tuple[float, Callable[[World], None]]


def drain(world: World) -> None:
    world.worker.stop.drain()


def cancel_all(world: World) -> None:
    world.task.cancel()


def store_is_away(seconds: float) -> Callable[[World], None]:
    def away(world: World) -> None:
        world.store.away_until = world.clock() + seconds

    return away


def end_lease(number: int, state: UnitState) -> Callable[[World], None]:
    return lambda world: world.store.take_away(f"u{number % len(world.units)}", state)


def drop(number: int) -> Callable[[World], None]:
    """The process itself finds out, in this very moment, that a lease is gone."""

    def lose(world: World) -> None:
        end_lease(number, UnitState.READY)(world)
        for held in list(world.worker._keeper._held.values()):
            if held.unit.key == f"u{number % len(world.units)}":
                world.worker._keeper.lose(held)

    return lose


moments = st.floats(0.0, 60.0)
numbers = st.integers(0, 30)
lengths = st.one_of(
    st.floats(0.5, 60.0), st.floats(60.0, 1800.0), st.sampled_from([1799.5, 1800.0, 1801.0, 3600.0, 7199.0, 7300.0])
)
fates = st.sampled_from(
    ["done"] * 8 + ["missing", "unavailable", "broken", "speech_failed", "breaks_its_group", "quarantines"]
)


@st.composite
def virtual_units(draw: st.DrawFn) -> VirtualUnit:
    seconds = draw(lengths)
    claimed = draw(st.sampled_from(["right", "nothing", "too little", "too much"]))
    claims = {"right": seconds, "nothing": None, "too little": seconds / 3, "too much": seconds * 2}[claimed]
    return VirtualUnit(
        seconds=seconds,
        claims=claims,
        clip=draw(st.sampled_from([None, None, None, Clip(0.2, None), Clip(0.1, 20.0)])),
        fetch_s=draw(st.sampled_from([0.0, 0.3, 0.3, 2.0, 30.0])),
        decode_s=draw(st.sampled_from([0.0, 0.01, 1.0])),
        gpu_s=draw(st.sampled_from([0.0, 0.2, 5.0])),
        publish_s=draw(st.sampled_from([0.0, 0.2, 3.0])),
        fate=draw(fates),
    )


disturbances = st.lists(
    st.one_of(
        st.tuples(moments, st.builds(end_lease, numbers, st.sampled_from([UnitState.CANCELLED, UnitState.READY]))),
        st.tuples(moments, st.builds(drop, numbers)),
        st.tuples(moments, st.builds(store_is_away, st.floats(0.0, 10.0))),
        st.tuples(moments, st.just(drain)),
        st.tuples(moments, st.just(cancel_all)),
    ),
    max_size=6,
)
worlds = st.builds(
    World,
    units=st.lists(virtual_units(), min_size=1, max_size=24),
    admission_s=st.sampled_from([0.0, 0.05, 1.5]),
    call_s=st.sampled_from([0.0, 0.002, 0.5]),
    prepare=st.booleans(),
    lease_seconds=st.sampled_from([5.0, 120.0]),
    settings=st.fixed_dictionaries(
        {
            "lanes": st.integers(1, 4),
            "flight_units": st.integers(1, 8),
            "artifact_io_threads": st.integers(1, 5),
            "decode_budget_seconds": st.sampled_from([30.0, 300.0, 1800.0]),
            "group_seconds": st.sampled_from([100.0, 1000.0, 7200.0]),
            "drain_seconds": st.sampled_from([0.0, 10.0, 300.0]),
        }
    ),
)


def check_books(world: World) -> None:
    for budget in (world.worker.budget, world.worker.section_budget):
        assert budget.in_use == 0.0
        assert budget.line == 0
        assert budget.high_water <= budget.limit
        assert budget.granted == sorted(budget.granted), "a share was granted out of turn"
    assert world.worker._tools.gpu_lock.holder is None
    if not world.task.cancelled():  # its traceback holds everything
        assert world.alive_s == pytest.approx(0.0, abs=1e-3), "audio outlived its flight"
    assert all(file.stream.closed for file in world.files)


def check_gpu(world: World) -> None:
    sections, waits = world.of(Phase.GPU_SECTION), world.of(Phase.GPU_WAIT)
    assert all(before.ended_s <= after.began_s for before, after in pairwise(sections)), "two lanes had the GPU"
    assert all(before.began_s <= after.began_s for before, after in pairwise(waits)), "the GPU was had out of turn"
    for group in world.of(Phase.GROUP):
        assert group.units == 1 or group.audio_s <= world.worker.section_budget.limit / 2


def check_units(world: World, ending: Ending | None) -> None:
    store, held = world.store, [row for row in world.store.rows.values() if row.token is not None]
    assert len(store.published) == len(set(store.published)), "a unit was published twice"
    if ending is Ending.FINISHED:
        assert all(row.state.is_final for row in store.rows.values())
    for row in held:  # nobody but a store that was away, or a lease known to be gone, keeps a unit from going back
        assert row.token in store.known_lost or store.away_until >= 0.0
    if not any(unit.fate in ("unavailable", "speech_failed", "breaks_its_group") for unit in world.units):
        assert all(row.attempts == 0 for row in store.rows.values()), "an attempt was charged for another's trouble"


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(worlds, disturbances)
def test_whatever_happens_books_balance_bounds_hold_turns_are_fair_and_every_unit_ends(
    world: World, happens: list[Disturbance]
) -> None:
    ending = world.run(*happens)
    check_books(world)
    check_gpu(world)
    check_units(world, ending)
