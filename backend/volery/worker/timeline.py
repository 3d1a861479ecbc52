"""What each lane did and when: always recorded, for whoever wants to measure or draw it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum


class Phase(StrEnum):
    """What a lane does. Preparation and the wait for the GPU may overlap; groups lie inside the GPU section."""

    ADMISSION = "admission"
    PREPARATION = "preparation"
    GPU_WAIT = "gpu_wait"
    GPU_SECTION = "gpu_section"
    GROUP = "group"
    PUBLICATION = "publication"


@dataclass(frozen=True, slots=True)
class Span:
    """One phase of one flight.

    Times are `perf_counter` seconds. `units` and `audio_s` are what the phase dealt with: units
    admitted, prepared, waiting, worked off, published; the audio-seconds of those whose audio is decoded.
    """

    lane: int
    phase: Phase
    began_s: float
    ended_s: float
    units: int
    audio_s: float


OnSpan = Callable[[Span], None]
"""Told of every span as it ends, on the event loop."""
