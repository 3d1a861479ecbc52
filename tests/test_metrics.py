"""The series: buckets tell apart what was measured, and labels are bounded."""

from __future__ import annotations

from bisect import bisect_left

import prometheus_client.metrics
import pytest

from volery import metrics
from volery.bench.profiles import load_profile
from volery.settings import WorkerSettings

L4 = load_profile("l4")
PLAIN, FAST = L4.stages(reuse=False, graphs=False), L4.stages(reuse=True, graphs=True)
OF_A_GROUP = L4.flight_units


def bucket(seconds: float) -> int:
    """Which bucket of the stages' histogram an observation falls into."""
    edges = [float(bound) for bound in metrics.STAGE_SECONDS.labels("asr")._upper_bounds]
    return bisect_left(edges, seconds)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (OF_A_GROUP * PLAIN["diarize"], OF_A_GROUP * FAST["diarize"]),
        (OF_A_GROUP * PLAIN["asr"], OF_A_GROUP * FAST["asr"]),
        (1.88, 2.60),  # a GPU section with preparation and without, of docs/operating/sizing.md
        (0.27, 0.43),  # a fetch in production and in the profile
        (0.05, 1.49),  # an admission in the profile and in production
    ],
    ids=["reuse", "graphs", "prepare", "fetch", "admission"],
)
def test_what_was_measured_to_differ_falls_into_different_buckets(one: float, other: float) -> None:
    assert bucket(one) != bucket(other)


def test_a_full_group_at_half_of_real_time_is_still_within_the_buckets() -> None:
    seconds = 2 * WorkerSettings.model_fields["group_seconds"].default
    last = max(bound for bound in metrics.STAGE_SECONDS.labels("asr")._upper_bounds if bound < float("inf"))
    assert seconds <= last


def test_no_label_holds_a_key_a_place_or_an_owner() -> None:
    series = [one for one in vars(metrics).values() if isinstance(one, prometheus_client.metrics.MetricWrapperBase)]
    bounded = {"stage", "outcome", "result_class", "reason", "switch", "state", "purpose"}
    of_the_referee = {"device", "why", "outcome", "language"}
    assert {label for one in series for label in one._labelnames} <= bounded | of_the_referee
