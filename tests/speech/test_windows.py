"""Speech windows hold all speech and no more than they may."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from volery.speech.segments import Activity
from volery.speech.windows import JOIN_GAP_S, PADDING_S, cut_windows, windows_of
from volery.units import SAMPLE_RATE, Segment

STEP_S = 0.1
DURATION_S = 100.0


def even(value: float = 1.0, *, dips: dict[float, float] | None = None) -> Activity:
    scores = np.full(int(DURATION_S / STEP_S), value, dtype=np.float32)
    for at, score in (dips or {}).items():
        scores[int(at / STEP_S) : int(at / STEP_S) + 5] = score
    return Activity(scores, STEP_S / 2, STEP_S)


@st.composite
def speech(draw: st.DrawFn) -> list[Segment]:
    lengths = draw(st.lists(st.floats(0.1, 40), max_size=8))
    gaps = draw(st.lists(st.floats(0.1, 5), min_size=len(lengths), max_size=len(lengths)))
    segments, at = [], draw(st.floats(0, 1))
    for length, gap in zip(lengths, gaps, strict=True):
        segments.append(Segment(at, at + length))
        at += length + gap
    return segments


def test_no_speech_gives_no_windows() -> None:
    assert cut_windows([], even(), DURATION_S, 30) == ()


def test_close_segments_share_a_window_and_far_ones_do_not() -> None:
    near, far = JOIN_GAP_S / 2, JOIN_GAP_S * 2
    cuts = cut_windows([Segment(10, 11), Segment(11 + near, 12), Segment(12 + far, 15)], even(), DURATION_S, 30)
    assert cuts == (Segment(10 - PADDING_S, 12 + PADDING_S), Segment(12 + far - PADDING_S, 15 + PADDING_S))


def test_a_long_segment_is_split_at_its_deepest_pause() -> None:
    activity = even(dips={22.0: 0.2, 26.0: 0.6})
    first, second = cut_windows([Segment(0, 40)], activity, DURATION_S, 30)
    assert 22.0 <= first.end_s <= 22.5
    assert second.start_s == first.end_s


def test_padding_stops_half_way_to_the_next_window_and_at_the_ends() -> None:
    cuts = cut_windows([Segment(0.1, 20), Segment(20.1, 40)], even(), 40.05, 21)
    assert cuts == (Segment(0.0, 20.05), Segment(20.05, 40.05))


@given(speech(), st.floats(1, 60), st.integers(0, 2**32 - 1))
def test_windows_hold_all_speech_without_overlap_and_within_bounds(
    segments: list[Segment], longest_s: float, seed: int
) -> None:
    duration_s = segments[-1].end_s + 0.05 if segments else 1.0
    scores = np.random.default_rng(seed).random(int(duration_s / STEP_S) + 1).astype(np.float32)
    cuts = cut_windows(segments, Activity(scores, STEP_S / 2, STEP_S), duration_s, longest_s)
    assert all(0 <= cut.start_s < cut.end_s <= duration_s for cut in cuts)
    assert all(cut.end_s - cut.start_s <= longest_s for cut in cuts)
    assert all(before.end_s <= after.start_s for before, after in pairwise(cuts))
    for segment in segments:
        held = sum(max(0.0, min(cut.end_s, segment.end_s) - max(cut.start_s, segment.start_s)) for cut in cuts)
        assert abs(held - (segment.end_s - segment.start_s)) < 1e-6


@given(speech(), st.floats(1, 60))
def test_windows_as_samples_are_never_longer_than_the_longest(segments: list[Segment], longest_s: float) -> None:
    duration_s = segments[-1].end_s if segments else 1.0
    samples = np.zeros(round(duration_s * SAMPLE_RATE), dtype=np.float32)
    cuts = cut_windows(segments, even(), duration_s, longest_s)
    assert all(len(window.samples) <= longest_s * SAMPLE_RATE for window in windows_of(0, samples, cuts, None))


def test_rounding_to_samples_makes_no_window_longer_than_the_longest() -> None:
    longest_s = 1.00003
    start_s = PADDING_S + 100.49 / SAMPLE_RATE
    segment = Segment(start_s, start_s + longest_s - 2 * PADDING_S)
    cuts = cut_windows([segment], even(), DURATION_S, longest_s)
    samples = np.zeros(round(DURATION_S * SAMPLE_RATE), dtype=np.float32)
    assert all(len(window.samples) <= longest_s * SAMPLE_RATE for window in windows_of(0, samples, cuts, None))
