"""From scores a frame to stretches of speech."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from volery.speech.segments import Activity, Thresholds, speech_segments
from volery.units import Segment

STEP_S = 0.02
PLAIN = Thresholds(onset=0.5, offset=0.5, min_speech_s=0.0, min_pause_s=0.0)

scores = st.lists(st.floats(0, 1, width=32).filter(lambda score: score != 0.5), max_size=200)
thresholds = st.builds(
    Thresholds,
    onset=st.floats(0.4, 0.8),
    offset=st.floats(0.1, 0.4),
    min_speech_s=st.floats(0, 0.3),
    min_pause_s=st.floats(0, 0.3),
)


def activity(values: list[float]) -> Activity:
    return Activity(np.array(values, dtype=np.float32), STEP_S / 2, STEP_S)


def segments(values: list[float], limits: Thresholds = PLAIN) -> tuple[Segment, ...]:
    return speech_segments(activity(values), limits, len(values) * STEP_S)


def test_speech_lasts_from_the_first_loud_frame_to_the_first_quiet_one() -> None:
    assert segments([0, 0, 1, 1, 1, 0]) == (Segment(0.04, 0.1),)


def test_speech_may_reach_the_end() -> None:
    assert segments([0, 1, 1]) == (Segment(0.02, 0.06),)


def test_no_frames_hold_no_speech() -> None:
    assert segments([]) == ()


def test_a_score_between_offset_and_onset_continues_speech_but_does_not_start_it() -> None:
    limits = Thresholds(onset=0.6, offset=0.3, min_speech_s=0, min_pause_s=0)
    assert segments([0.5, 0.5, 0.9, 0.5, 0.1, 0.5], limits) == (Segment(0.04, 0.08),)


def test_short_pauses_are_filled_before_short_speech_is_dropped() -> None:
    limits = Thresholds(onset=0.5, offset=0.5, min_speech_s=0.1, min_pause_s=0.03)
    assert segments([1, 1, 0, 1, 1, 0, 0, 1, 0], limits) == (Segment(0.0, 0.1),)


@pytest.mark.parametrize("duration_s", [0.0, 0.013, 0.0256875])
def test_speech_never_outlasts_its_unit(duration_s: float) -> None:
    found = speech_segments(activity([1.0] * 100), PLAIN, duration_s)
    assert all(segment.end_s <= duration_s for segment in found)


@given(scores, thresholds)
def test_segments_are_ordered_apart_long_enough_and_inside_the_unit(values: list[float], limits: Thresholds) -> None:
    found = segments(values, limits)
    for segment in found:
        assert 0 <= segment.start_s < segment.end_s <= len(values) * STEP_S
        assert segment.end_s - segment.start_s >= limits.min_speech_s - 0.002
    for before, after in pairwise(found):
        assert after.start_s - before.end_s >= limits.min_pause_s - 0.002


@given(scores)
def test_without_limits_speech_is_exactly_the_loud_frames(values: list[float]) -> None:
    found = segments(values)
    for index, value in enumerate(values):
        middle = (index + 0.5) * STEP_S
        assert any(segment.start_s <= middle <= segment.end_s for segment in found) == (value > 0.5)
