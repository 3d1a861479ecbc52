"""Bytes in, 16 kHz mono float32 out, or a typed reason why not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from math import inf, isfinite
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
from av.audio.frame import AudioFrame

from volery.audio.containers import AudioFile, undecodable
from volery.audio.samples import Resampler, Samples, to_mono
from volery.units import SAMPLE_RATE, Clip, Reason, UnitRejected

# A clip that starts later than this is reached by a jump; an earlier one is reached as fast by decoding.
_JUMP_FROM_SECONDS = 30.0
_ROUNDING_SECONDS = 1e-6
# Times jitter by less than this; recorders that leave out silence leave out more.
_GAP_SECONDS = 0.2
# How far beyond a claimed length a time is believed: damaged ones lie anywhere.
_BEYOND_CLAIM_SECONDS = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Decoded:
    """Decoded audio: `samples` is mono float32 of shape `(samples,)` at 16 kHz, within -1 to 1.

    `container`, `codec`, `sample_rate` and `channels` say what it was before; `truncated` that the
    file should have held more, or that a part of it could not be decoded.
    """

    samples: npt.NDArray[np.float32] = field(repr=False)
    container: str
    codec: str
    sample_rate: int
    channels: int
    truncated: bool

    @property
    def duration_s(self) -> float:
        """Length in seconds."""
        return len(self.samples) / SAMPLE_RATE


def probe_seconds(stream: BinaryIO, uri: str) -> float | None:
    """Length in seconds that the container claims for the whole file; None where it claims none.

    Only a hint: headers lie, and some formats have it estimated from a bit rate. Leaves the
    stream rewound. `uri` is for messages alone.

    Raises:
        UnitRejected, UnitFailed: as `decode` would on opening.
    """
    try:
        with AudioFile(stream, uri) as file:
            return file.claimed_s
    finally:
        stream.seek(0)


def decode(stream: BinaryIO, uri: str, *, clip: Clip | None, max_seconds: float) -> Decoded:
    """Decode a seekable stream, or a clip of it, that lasts at most `max_seconds`.

    Content alone decides what is in the stream; `uri` is for messages alone. A clip's end beyond
    the end of the file is cut to it. Damaged parts are left out. What a container such as WebM leaves
    out by the times of its packets is silence, so that times are those of a player. Safe to call from
    several threads.

    Raises:
        UnitRejected: `audio_empty`, `audio_undecodable`, `audio_no_stream`, `audio_too_long` or
            `audio_bad_clip`.
        UnitFailed: `audio_unavailable` where the stream cannot be read.
    """
    clip = clip or Clip()
    _check_clip(clip, uri)
    with AudioFile(stream, uri) as file:
        if _claims_too_much(file, clip, max_seconds):
            raise _too_long(uri, max_seconds)
        reached = _reach(file, clip.start_s)
        cut = _Cut(clip, reached.start_s, reached.first if file.keeps_time else None, file.claimed_s)
        samples = _collect(reached.frames, cut, uri, max_seconds)
        if not len(samples) or file.is_chance(cut.position_s):
            raise _nothing(file, cut, clip, uri)
        truncated = file.damaged or (not cut.is_complete and file.breaks_off(cut.position_s))
        return Decoded(samples, file.container, file.codec, cut.rate, cut.channels, truncated)


_LONGEST_SECONDS = 1e9
"""Longer than any file: a clip may name any end, and a sample's number must stay a number."""


class _Cut:
    """Takes a clip out of frames, the first of which starts at `start_s` of the file.

    Where the file keeps time, from its `first` frame on, silence fills what the times of frames say is missing.
    """

    def __init__(self, clip: Clip, start_s: float, first: AudioFrame | None, claimed_s: float | None) -> None:
        self._clip = clip
        self._since_s = start_s
        self._first = first
        self._latest_s = inf if claimed_s is None else claimed_s + _BEYOND_CLAIM_SECONDS
        self._passed = 0
        self.rate = 0
        self.channels = 0

    @property
    def position_s(self) -> float:
        """How much of the file has gone by, in seconds."""
        return self._since_s + (self._passed / self.rate if self.rate else 0.0)

    @property
    def is_complete(self) -> bool:
        """Whether nothing that follows belongs to the clip."""
        return self._clip.end_s is not None and self._passed >= self._sample_at(self._clip.end_s)

    def take(self, frames: Iterator[AudioFrame]) -> Iterator[Samples]:
        """What of the frames is in the clip, a second at the most at once, until it is complete."""
        for frame in frames:
            if frame.sample_rate != self.rate:
                self._since_s, self._passed = self.position_s, 0
                self.rate = frame.sample_rate
            self.channels = max(self.channels, frame.layout.nb_channels)
            missing = self._missing_before(frame)
            while missing > 0 and not self.is_complete:
                silence = np.zeros(min(missing, self.rate), np.float32)
                missing -= len(silence)
                yield silence[self._pass(len(silence))]
            within = self._pass(frame.samples)
            if within.start < frame.samples:
                yield to_mono(frame)[within]
            if self.is_complete:
                return

    def _missing_before(self, frame: AudioFrame) -> int:
        """Samples that are left out between the frames before and this one, by its time."""
        at_s = None if self._first is None else _seconds_between(self._first, frame)
        if at_s is None or at_s - self.position_s < _GAP_SECONDS or at_s > self._latest_s:
            return 0
        return round((at_s - self.position_s) * self.rate)

    def _pass(self, count: int) -> slice:
        """Let so many samples go by; which of them are in the clip."""
        before, self._passed = self._passed, self._passed + count
        start = max(self._sample_at(self._clip.start_s) - before, 0)
        return slice(start, None if self._clip.end_s is None else max(self._sample_at(self._clip.end_s) - before, 0))

    def _sample_at(self, seconds: float) -> int:
        return round(min(seconds - self._since_s, _LONGEST_SECONDS) * self.rate)


def _collect(frames: Iterator[AudioFrame], cut: _Cut, uri: str, max_seconds: float) -> Samples:
    resampler, kept_s = Resampler(), 0.0
    for samples in cut.take(frames):
        kept_s += len(samples) / cut.rate
        if kept_s > max_seconds + _ROUNDING_SECONDS:
            raise _too_long(uri, max_seconds)
        resampler.add(samples, cut.rate)
    return resampler.finish()


@dataclass(frozen=True, slots=True)
class _Reached:
    """Frames that begin at or before a place in the file, where the first of them begins, and the file's own first."""

    frames: Iterator[AudioFrame]
    start_s: float = 0.0
    first: AudioFrame | None = None


def _reach(file: AudioFile, seconds: float) -> _Reached:
    frames = file.frames()
    first = next(frames, None)
    if first is None:
        return _Reached(iter(()))
    if seconds >= _JUMP_FROM_SECONDS:
        later = file.jump(first, seconds)
        landed = next(later, None)
        if landed is not None and (start_s := _seconds_between(first, landed)) is not None and start_s <= seconds:
            return _Reached(chain([landed], later), start_s, first)
        file.reopen()
        return _Reached(file.frames(), 0.0, first)
    return _Reached(chain([first], frames), 0.0, first)


def _seconds_between(first: AudioFrame, later: AudioFrame) -> float | None:
    if first.pts is None or later.pts is None or later.time_base is None:
        return None
    return float((later.pts - first.pts) * later.time_base)


def _claims_too_much(file: AudioFile, clip: Clip, max_seconds: float) -> bool:
    """Whether the unit is too long by the container's own word and by the packets behind it.

    It spares decoding two hours of audio before refusing it.
    """
    last_s = clip.start_s + max_seconds
    if (file.claimed_s or 0.0) <= last_s or (clip.end_s is not None and clip.end_s <= last_s):
        return False
    return file.packets_reach(last_s)


def _check_clip(clip: Clip, uri: str) -> None:
    start, end = clip.start_s, clip.end_s
    if not (isfinite(start) and start >= 0) or (end is not None and not (isfinite(end) and end > start)):
        raise UnitRejected(
            Reason.AUDIO_BAD_CLIP, f"clip {start} to {end} s of {uri}: it has to start at 0 or later and end after that"
        )


def _too_long(uri: str, max_seconds: float) -> UnitRejected:
    return UnitRejected(
        Reason.AUDIO_TOO_LONG,
        f"{uri} lasts longer than {max_seconds:g} s; submit it as several clips, "
        "or raise BATCH_PIPELINE_AUDIO_MAX_SECONDS",
    )


def _nothing(file: AudioFile, cut: _Cut, clip: Clip, uri: str) -> UnitRejected:
    if file.is_chance(cut.position_s) or (not cut.position_s and (file.damaged or file.claimed_s)):
        return undecodable(uri)
    if cut.position_s and not clip.start_s and not cut.is_complete:
        return UnitRejected(
            Reason.AUDIO_EMPTY, f"{uri} holds {1000 * cut.position_s:.2g} ms of audio, too little to hear"
        )
    if cut.position_s:
        within = clip.start_s < cut.position_s
        why = "is shorter than a sample" if within else f"starts after the audio's end, {cut.position_s:.3f} s"
        return UnitRejected(Reason.AUDIO_BAD_CLIP, f"the clip of {uri} {why}")
    return UnitRejected(Reason.AUDIO_EMPTY, f"{uri} holds a header and not a single sample")
