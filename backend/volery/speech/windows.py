"""Speech windows: the pieces of a unit that ASR hears.

Whole units are not transcribed: transducers lose speech before long silence and at the end of
very long audio, and Whisper invents words where nobody speaks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from volery.speech.segments import Activity
from volery.units import SAMPLE_RATE, Segment

PADDING_S = 0.2
"""Kept around speech: VAD cuts into soft beginnings and endings."""

JOIN_GAP_S = 1.0
"""Pauses up to this long stay inside a window, so that a sentence is heard as one."""

_SMOOTHING_S = 0.2
_ROUNDING_S = 0.001
"""Spared so that rounding to samples makes no window too long."""


@dataclass(frozen=True, slots=True, eq=False)
class SpeechWindow:
    """A stretch of a unit for ASR: `samples` are mono at 16 kHz, `unit` is its place in the group."""

    unit: int
    start_s: float
    samples: npt.NDArray[np.float32]
    language: str | None = None

    @property
    def duration_s(self) -> float:
        """Length in seconds."""
        return len(self.samples) / SAMPLE_RATE


def cut_windows(
    speech: Sequence[Segment], activity: Activity, duration_s: float, longest_s: float
) -> tuple[Segment, ...]:
    """Windows that hold all speech, in order, none overlapping, none longer than `longest_s`.

    Close segments are joined, long ones split at their deepest pause, and each window is padded
    as far as its neighbours and the unit's ends allow.
    """
    room_s = longest_s - 2 * PADDING_S - _ROUNDING_S
    pieces = [piece for segment in speech for piece in _split(segment, activity, room_s)]
    return tuple(_padded(_joined(pieces, room_s), duration_s))


def _split(segment: Segment, activity: Activity, room_s: float) -> list[Segment]:
    pieces: list[Segment] = []
    start_s = segment.start_s
    while segment.end_s - start_s > room_s:
        latest_s = start_s + room_s
        cut_s = _deepest_pause(activity, start_s + room_s / 2, min(latest_s, segment.end_s))
        pieces.append(Segment(start_s, cut_s))
        start_s = cut_s
    return [*pieces, Segment(start_s, segment.end_s)]


def _deepest_pause(activity: Activity, earliest_s: float, latest_s: float) -> float:
    """Where the smoothed score is lowest; the latest such place, so that windows stay long."""
    frames = activity.between(earliest_s, latest_s)
    scores = activity.scores[frames]
    if not len(scores):
        return latest_s
    width = max(1, round(_SMOOTHING_S / activity.step_s))
    smooth = np.convolve(np.pad(scores, width, mode="edge"), np.ones(width) / width, mode="same")[width:-width]
    lowest = len(smooth) - 1 - int(np.argmin(smooth[::-1]))
    return min(latest_s, activity.time(frames.start + lowest))


def _joined(pieces: Sequence[Segment], room_s: float) -> list[Segment]:
    joined: list[Segment] = []
    for piece in pieces:
        last = joined[-1] if joined else None
        if last and piece.start_s - last.end_s <= JOIN_GAP_S and piece.end_s - last.start_s <= room_s:
            joined[-1] = Segment(last.start_s, piece.end_s)
        else:
            joined.append(piece)
    return joined


def _padded(pieces: Sequence[Segment], duration_s: float) -> list[Segment]:
    """Pad each piece, but no further than half way to its neighbour."""
    ends = [0.0, *((a.end_s + b.start_s) / 2 for a, b in pairwise(pieces)), duration_s]
    return [
        Segment(max(piece.start_s - PADDING_S, before), min(piece.end_s + PADDING_S, after))
        for piece, before, after in zip(pieces, ends, ends[1:], strict=False)
    ]


def windows_of(
    unit: int, samples: npt.NDArray[np.float32], cuts: Sequence[Segment], language: str | None
) -> list[SpeechWindow]:
    """The windows of one unit as samples."""
    return [
        SpeechWindow(unit, first / SAMPLE_RATE, samples[first:last], language)
        for first, last in ((round(cut.start_s * SAMPLE_RATE), round(cut.end_s * SAMPLE_RATE)) for cut in cuts)
        if last > first
    ]
