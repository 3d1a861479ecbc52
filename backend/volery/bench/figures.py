"""From what a run did and when, to its figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from volery.worker.timeline import Phase, Span


@dataclass(frozen=True)
class LaneFigures:
    """What the lanes' spans of one run come to, in seconds.

    `gpu_section_s` is the bill: the sum of all GPU sections. `gpu_busy_s` is the time in which a
    group was on the GPU, and `held_idle_s` what of the bill had none on it. `wall_s` lasts from the
    beginning of the run to the end of the last publication: the empty pulls that end a burst are
    left out, since a worker that goes on has none.

    `idle_s` is GPU idle while work waits: the time in which no group was on the GPU although some
    unit was ready or admitted and had not been through it. All units are ready before a run begins,
    so this is all the time until the last group ended in which no group was on the GPU, fetching
    the very first flight included (`first_group_s`); after it, only publications are left.
    """

    gpu_section_s: float
    gpu_busy_s: float
    held_idle_s: float
    wall_s: float
    idle_s: float
    first_group_s: float


def lane_figures(began_s: float, spans: Sequence[Span]) -> LaneFigures:
    """The figures of a run that began at a time of `perf_counter`. Groups never overlap: the GPU is one."""
    groups = [span for span in spans if span.phase is Phase.GROUP]
    busy_s = sum(span.ended_s - span.began_s for span in groups)
    section_s = sum(span.ended_s - span.began_s for span in spans if span.phase is Phase.GPU_SECTION)
    last_group_s = max((span.ended_s for span in groups), default=began_s)
    first_group_s = min((span.began_s for span in groups), default=began_s)
    return LaneFigures(
        gpu_section_s=section_s,
        gpu_busy_s=busy_s,
        held_idle_s=max(section_s - busy_s, 0.0),
        wall_s=max((span.ended_s for span in spans), default=began_s) - began_s,
        idle_s=max(last_group_s - began_s - busy_s, 0.0),
        first_group_s=first_group_s - began_s,
    )
