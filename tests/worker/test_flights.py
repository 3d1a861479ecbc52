"""One rule of the lanes at a time, on a virtual clock."""

from __future__ import annotations

from volery.units import UnitState
from volery.worker.timeline import Phase
from volery.worker.worker import Ending
from worker.virtual import VirtualUnit, World


def unit(seconds: float = 28.0, **fields: float | str) -> VirtualUnit:
    """A unit whose container claims what it holds, and that takes a second of the GPU."""
    return VirtualUnit(**{"seconds": seconds, "claims": seconds, "gpu_s": 1.0, **fields})  # type: ignore[arg-type]


def world(*units: VirtualUnit, lanes: int = 1, prepare: bool = True, **settings: float) -> World:
    return World(units, admission_s=0.0, call_s=0.0, prepare=prepare, settings={"lanes": lanes, **settings})


def prepared(run: World) -> list[int]:
    """How many units each flight had prepared when it took the GPU, or sooner."""
    return [span.units for span in run.of(Phase.PREPARATION)]


# --- preparation ---


def test_a_waiting_lane_prepares_its_whole_flight() -> None:
    run = world(*[unit(fetch_s=0.5)] * 16, lanes=2)
    run.run()
    assert prepared(run) == [8, 8]
    assert [span.units for span in run.of(Phase.GROUP)] == [8, 8]


def test_switched_off_a_lane_prepares_only_the_first_unit() -> None:
    run = world(*[unit(fetch_s=0.5)] * 16, lanes=2, prepare=False)
    run.run()
    assert prepared(run) == [1, 1]
    assert run.states() == {UnitState.DONE}


def test_switched_off_a_first_unit_that_fails_is_not_replaced() -> None:
    run = world(unit(fate="missing"), *[unit(fetch_s=0.5)] * 3, prepare=False)
    run.run()
    assert prepared(run) == [0]
    assert run.of(Phase.GPU_SECTION)[0].units == 4


def test_a_unit_larger_than_the_budget_is_passed_over_and_decoded_while_the_others_are_on_the_gpu() -> None:
    run = world(unit(2000.0, fetch_s=0.5, decode_s=2.0), *[unit(fetch_s=0.5)] * 3)
    run.run()
    assert prepared(run) == [3]
    assert run.groups == [["u1", "u2", "u3"], ["u0"]]
    section = run.of(Phase.GPU_SECTION)[0]
    assert section.began_s <= run.decode_began_s["u0"] < run.of(Phase.GROUP)[0].ended_s
    assert run.worker.budget.high_water <= 3 * 29.0


def test_a_full_budget_sends_a_lane_to_the_gpu_with_what_it_has() -> None:
    run = world(*[unit(500.0, fetch_s=0.5)] * 6)
    run.run()
    assert prepared(run) == [3]
    assert run.groups == [["u0", "u1", "u2"], ["u3", "u4", "u5"]]


def test_a_lane_that_waits_for_the_gpu_goes_on_preparing_as_the_budget_allows() -> None:
    run = world(*[unit(500.0, gpu_s=10.0)] * 6, lanes=3, flight_units=2, decode_budget_seconds=2600.0)
    run.run()
    assert prepared(run) == [2, 2, 2]
    assert run.decode_began_s["u5"] == run.of(Phase.GPU_SECTION)[0].ended_s


def test_a_lane_with_nothing_ready_does_not_take_the_gpu() -> None:
    full = [unit(1700.0, fetch_s=0.1, decode_s=60.0), unit(1700.0, fetch_s=0.1, decode_s=5.0)]
    run = world(*full, lanes=2, flight_units=1)
    run.run()
    assert run.seconds(Phase.GPU_SECTION) == run.seconds(Phase.GROUP)


def test_lanes_that_share_a_full_budget_do_not_wait_for_each_other() -> None:
    run = world(*[unit(500.0, fetch_s=0.1 * n) for n in range(1, 17)], lanes=4, flight_units=4)
    assert run.run() is Ending.FINISHED
    assert run.states() == {UnitState.DONE}
    assert run.worker.budget.high_water > 1500.0


def test_a_container_that_claims_too_little_costs_a_second_decode_and_nothing_else() -> None:
    run = world(unit(600.0, claims=20.0), unit())
    run.run()
    assert run.states() == {UnitState.DONE}
    assert run.worker.section_budget.high_water == 7200.0


# --- on the way to the GPU ---


def test_a_unit_whose_lease_is_lost_while_its_lane_waits_gives_its_share_back_at_once() -> None:
    seen: list[float] = []

    def lose(run: World) -> None:
        run.worker._keeper.lose(run.worker._keeper._held[str(run.store.rows["u9"].token)])

    def look(run: World) -> None:
        seen.append(run.worker.budget.in_use)

    run = world(*[unit(100.0, gpu_s=10.0)] * 16, lanes=2)
    run.run((20.0, look), (21.0, lose), (21.1, look))
    assert seen == [1600.0, 1500.0]
    assert sorted(map(len, run.groups)) == [1, 7, 8]


def test_a_lane_whose_leases_are_all_lost_leaves_the_line_for_the_gpu() -> None:
    def lose(run: World) -> None:
        run.store.take_away("u1", UnitState.CANCELLED)
        run.worker._keeper.lose(next(one for one in run.worker._keeper._held.values() if one.unit.key == "u1"))

    run = world(*[unit(gpu_s=100.0)] * 3, lanes=2, flight_units=1)
    run.run((10.0, lose))
    admitted = run.of(Phase.ADMISSION)
    assert [span.ended_s for span in admitted][-1] == 10.0


def test_a_drain_refunds_a_waiting_flight_before_anything_of_it_is_dispatched() -> None:
    run = world(*[unit()] * 16, lanes=2)
    assert run.run((1.0, lambda run: run.worker.stop.drain())) is Ending.DRAINED
    assert [len(group) for group in run.groups] == [8]
    assert sorted(set(run.store.endings.values())) == ["done", "refund:drain"]


# --- in the GPU section ---


def test_the_next_group_decodes_while_the_current_one_is_on_the_gpu() -> None:
    run = world(*[unit(fetch_s=0.1, decode_s=0.5, gpu_s=5.0)] * 4, prepare=False)
    run.run()
    first = run.of(Phase.GROUP)[0]
    assert all(first.began_s < run.decode_began_s[key] < first.ended_s for key in ("u1", "u2", "u3"))
    assert run.groups == [["u0"], ["u1", "u2", "u3"]]


def test_a_group_and_the_one_that_decodes_behind_it_are_within_the_sections_seconds() -> None:
    run = world(unit(1700.0, gpu_s=50.0), unit(7000.0))
    run.run()
    assert prepared(run) == [1]
    assert run.decode_began_s["u1"] == run.of(Phase.GROUP)[0].ended_s


def test_a_unit_that_stands_in_line_for_the_section_is_served_before_one_that_opens_later() -> None:
    large = [unit(5000.0, fetch_s=10.0), unit(5000.0, fetch_s=1.0), unit(5000.0, fetch_s=0.1, decode_s=20.0)]
    run = world(unit(), *large, prepare=False)
    run.run()
    assert run.groups == [["u0"], ["u3"], ["u2"], ["u1"]]


def test_a_decode_that_outgrows_its_claim_inside_the_section_does_not_wait_for_itself() -> None:
    late = VirtualUnit(seconds=600.0, claims=500.0, decode_s=100.0, gpu_s=10.0)
    run = world(*[unit(500.0, gpu_s=10.0)] * 5, late, lanes=3, flight_units=2, decode_budget_seconds=2600.0)
    run.run()
    assert run.states() == {UnitState.DONE}
    assert run.of(Phase.GPU_SECTION)[2].began_s < run.decode_began_s["u5"] == 120.0


def test_a_decode_that_outgrows_its_claim_inside_the_section_keeps_no_share_from_those_behind_it() -> None:
    late = VirtualUnit(seconds=6500.0, claims=500.0, decode_s=100.0, gpu_s=10.0)
    large = unit(6000.0, fetch_s=150.0)
    others = [unit(500.0, gpu_s=10.0), unit(500.0, gpu_s=10.0), unit(1.0, gpu_s=0.1)] * 2
    run = world(*others, unit(500.0), late, large, lanes=3, flight_units=3, decode_budget_seconds=2700.0)
    assert run.run() is Ending.FINISHED
    assert run.groups[-2:] == [["u7"], ["u8"]]


def test_a_group_leaves_half_of_the_section_to_the_next() -> None:
    run = world(*[unit(900.0, decode_s=1.0)] * 8, decode_budget_seconds=10.0)
    run.run()
    assert max(span.audio_s for span in run.of(Phase.GROUP)) <= 3600.0
    assert run.worker.section_budget.high_water > 3600.0


def test_a_section_whose_leases_are_all_lost_waits_for_no_audio() -> None:
    def lose(run: World) -> None:
        run.store.take_away("u0", UnitState.CANCELLED)
        for held in list(run.worker._keeper._held.values()):
            run.worker._keeper.lose(held)

    run = world(unit(2000.0, decode_s=500.0))
    run.run((100.0, lose))
    assert run.of(Phase.GPU_SECTION)[0].ended_s == 100.0
    assert run.groups == []


def test_a_drain_waits_for_a_section_that_lost_all_its_leases_no_longer_than_its_current_group() -> None:
    def lose(run: World) -> None:
        for key in run.store.rows:
            run.store.take_away(key, UnitState.READY)
        for held in list(run.worker._keeper._held.values()):
            run.worker._keeper.lose(held)

    run = world(*[unit(gpu_s=60.0)] * 4, prepare=False)
    assert run.run((10.0, lose), (10.0, lambda run: run.worker.stop.drain())) is Ending.DRAINED
    assert run.groups == [["u0"]]
    assert run.ended_s == 60.0


def test_a_group_that_breaks_is_not_tried_on_for_units_whose_lease_is_gone() -> None:
    def lose(run: World) -> None:
        run.store.take_away("u1", UnitState.CANCELLED)
        run.worker._keeper.lose(next(one for one in run.worker._keeper._held.values() if one.unit.key == "u1"))

    run = world(unit(gpu_s=10.0, fate="breaks_its_group"), unit(), unit())
    run.run((5.0, lose))
    assert run.groups[:3] == [["u0", "u1", "u2"], ["u0"], ["u2"]]


# --- after it ---


def test_a_refund_that_the_workers_end_cut_short_is_made_up_for() -> None:
    run = World(
        [unit(), unit(gpu_s=0.0, fate="quarantines"), unit(), unit()],
        admission_s=0.0,
        call_s=0.002,
        settings={"lanes": 2, "flight_units": 1},
    )
    assert run.run() is Ending.QUARANTINED
    assert not [row for row in run.store.rows.values() if row.token is not None]
