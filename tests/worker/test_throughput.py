"""What two lanes make of a GPU, in virtual time: the same figures on every machine.

The profile is that of `volery bench --profile l4`: 248 units, 7055 audio-seconds, flights of 8,
five IO threads, and GPU seconds a unit that stages on an L4 were reported to take.
"""

from __future__ import annotations

from functools import cache

import pytest

from volery.units import UnitState
from volery.worker.timeline import Phase
from worker.virtual import VirtualUnit, World

UNITS, AUDIO_SECONDS = 248, 7055.0
PLAIN = 0.130 + 0.0802 + 0.0548
REUSE = 0.130 + 0.0641 + 0.0548
REUSE_AND_GRAPHS = 0.130 + 0.0641 + 0.0403


@cache
def profile(
    gpu_s: float = REUSE_AND_GRAPHS,
    *,
    prepare: bool = True,
    fetch_s: float = 0.43,
    admission_s: float = 0.05,
    lanes: int = 2,
    slowest_s: float | None = None,
) -> World:
    """A run of the profile; `slowest_s` is how long the fetch of its hundredth unit takes."""
    length = AUDIO_SECONDS / UNITS
    fetches = [fetch_s] * UNITS
    fetches[99] = fetch_s if slowest_s is None else slowest_s
    units = [
        VirtualUnit(seconds=length, claims=length, fetch_s=fetch, decode_s=0.01, gpu_s=gpu_s, publish_s=0.2)
        for fetch in fetches
    ]
    world = World(units, admission_s=admission_s, prepare=prepare, settings={"lanes": lanes})
    world.run()
    assert world.states() == {UnitState.DONE}
    return world


def audio_hours_per_gpu_hour(world: World) -> float:
    return AUDIO_SECONDS / world.seconds(Phase.GPU_SECTION)


def idle_while_work_waited(world: World) -> float:
    """The share of the run in which the GPU had no group although not all was worked off."""
    last = max(span.ended_s for span in world.of(Phase.GROUP))
    return (last - world.seconds(Phase.GROUP)) / world.ended_s


@pytest.mark.parametrize(("gpu_s", "least"), [(REUSE, 114.0), (REUSE_AND_GRAPHS, 121.0)])
def test_prepared_lanes_reach_the_ceiling_of_the_profile(gpu_s: float, least: float) -> None:
    world = profile(gpu_s)
    assert audio_hours_per_gpu_hour(world) >= least
    assert idle_while_work_waited(world) <= 0.02


def test_a_section_of_a_prepared_flight_is_billed_for_its_groups_alone() -> None:
    world = profile()
    assert world.seconds(Phase.GPU_SECTION) <= 1.001 * world.seconds(Phase.GROUP)


def test_without_preparation_fetches_are_billed_to_the_gpu() -> None:
    world = profile(PLAIN, prepare=False)
    assert 85.0 <= audio_hours_per_gpu_hour(world) <= 95.0
    assert world.seconds(Phase.GPU_SECTION) >= 1.1 * world.seconds(Phase.GROUP)


def test_without_fetches_only_admission_is_waited_for() -> None:
    assert idle_while_work_waited(profile(fetch_s=0.0)) <= 0.002


def test_slow_fetches_leave_the_gpu_idle_but_unbilled() -> None:
    world = profile(fetch_s=2.0)
    assert idle_while_work_waited(world) >= 0.4
    assert audio_hours_per_gpu_hour(world) >= 121.0


def test_slow_admission_needs_a_third_lane() -> None:
    assert idle_while_work_waited(profile(fetch_s=0.27, admission_s=1.49)) >= 0.15
    assert idle_while_work_waited(profile(fetch_s=0.27, admission_s=1.49, lanes=3)) <= 0.04


def test_a_fetch_that_hangs_holds_up_its_own_flight_and_bills_nothing() -> None:
    world = profile(slowest_s=600.0)
    assert len([span for span in world.of(Phase.PUBLICATION) if span.ended_s < 150.0]) == UNITS // 8 - 1
    assert audio_hours_per_gpu_hour(world) >= 121.0
