"""How each figure is defined, on timelines drawn by hand."""

from __future__ import annotations

from bench.stubs import span
from volery.bench.figures import lane_figures
from volery.worker.timeline import Phase


def test_the_bill_is_the_sum_of_gpu_sections_and_what_had_no_group_is_held_idle() -> None:
    spans = [
        span(Phase.GPU_SECTION, 2.0, 6.0),
        span(Phase.GROUP, 3.0, 5.5),
        span(Phase.GPU_SECTION, 6.0, 8.0, lane=1),
        span(Phase.GROUP, 6.0, 8.0, lane=1),
    ]
    figures = lane_figures(0.0, spans)
    assert (figures.gpu_section_s, figures.gpu_busy_s, figures.held_idle_s) == (6.0, 4.5, 1.5)


def test_the_gpu_is_idle_while_work_waits_until_the_last_group_has_ended() -> None:
    spans = [
        span(Phase.ADMISSION, 10.0, 10.5),
        span(Phase.GROUP, 12.0, 15.0),
        span(Phase.GROUP, 16.0, 18.0, lane=1),
        span(Phase.PUBLICATION, 18.0, 25.0, lane=1),
    ]
    figures = lane_figures(10.0, spans)
    assert figures.first_group_s == 2.0
    assert figures.idle_s == 2.0 + 1.0


def test_wall_ends_with_the_last_publication() -> None:
    spans = [span(Phase.GROUP, 1.0, 2.0), span(Phase.PUBLICATION, 2.0, 2.5)]
    assert lane_figures(0.5, spans).wall_s == 2.0


def test_a_run_in_which_nothing_reached_the_gpu_has_figures_too() -> None:
    figures = lane_figures(3.0, [span(Phase.ADMISSION, 3.0, 4.0), span(Phase.PUBLICATION, 5.0, 6.0)])
    assert (figures.gpu_section_s, figures.gpu_busy_s, figures.idle_s, figures.first_group_s) == (0, 0, 0, 0)
    assert figures.wall_s == 3.0
