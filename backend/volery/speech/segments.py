"""From scores a frame to stretches of speech."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from volery.units import Segment


@dataclass(frozen=True, slots=True)
class Thresholds:
    """When speech begins and ends: scores from 0 to 1, durations in seconds."""

    onset: float
    offset: float
    min_speech_s: float
    min_pause_s: float


@dataclass(frozen=True, slots=True, eq=False)
class Activity:
    """How surely somebody speaks in each frame; frame `i` is at `first_s + i * step_s`."""

    scores: npt.NDArray[np.float32]
    first_s: float
    step_s: float

    def between(self, start_s: float, end_s: float) -> slice:
        """The frames whose middle lies in a stretch."""
        first = int(np.ceil((start_s - self.first_s) / self.step_s))
        last = int(np.floor((end_s - self.first_s) / self.step_s))
        return slice(max(0, first), max(0, last + 1))

    def time(self, frame: int) -> float:
        """Where a frame is."""
        return self.first_s + frame * self.step_s


def speech_segments(activity: Activity, thresholds: Thresholds, duration_s: float) -> tuple[Segment, ...]:
    """Stretches of speech in order, apart from each other, inside `[0, duration_s]`.

    Speech starts where the score rises above the onset and lasts until it falls below the
    offset (hysteresis: Gelly and Gauvain, Interspeech 2015). Short pauses are filled first, then
    short stretches dropped.
    """
    stretches = _fill([_clamp(activity, run, duration_s) for run in _runs(activity.scores, thresholds)], thresholds)
    return tuple(
        Segment(whole_ms(start, duration_s), whole_ms(end, duration_s))
        for start, end in stretches
        if end - start >= max(thresholds.min_speech_s, 1e-3)
    )


def whole_ms(seconds: float, duration_s: float) -> float:
    """A time rounded to milliseconds, but not beyond the end of its unit."""
    return min(round(seconds, 3), math.floor(duration_s * 1000) / 1000)


def _runs(scores: npt.NDArray[np.float32], thresholds: Thresholds) -> list[tuple[int, int]]:
    """Runs of speaking frames, last one exclusive."""
    on, off = scores > thresholds.onset, scores < thresholds.offset
    decided = np.where(on | off, np.arange(len(scores)), -1)
    last_decided = np.maximum.accumulate(decided)
    speaking = np.where(last_decided >= 0, on[last_decided], False)
    edges = np.flatnonzero(np.diff(np.concatenate(([False], speaking, [False])).astype(np.int8)))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def _clamp(activity: Activity, run: tuple[int, int], duration_s: float) -> tuple[float, float]:
    half = activity.step_s / 2
    start, end = activity.time(run[0]) - half, activity.time(run[1]) - half
    return min(max(0.0, start), duration_s), min(max(0.0, end), duration_s)


def _fill(stretches: list[tuple[float, float]], thresholds: Thresholds) -> list[tuple[float, float]]:
    filled: list[tuple[float, float]] = []
    for start, end in stretches:
        if filled and start - filled[-1][1] < thresholds.min_pause_s:
            filled[-1] = (filled[-1][0], end)
        else:
            filled.append((start, end))
    return filled
