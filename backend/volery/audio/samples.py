"""Frames of any rate, format and channel count to mono float32 at 16 kHz."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import av
import numpy as np
import numpy.typing as npt
from av.audio.frame import AudioFrame, format_dtypes
from av.audio.plane import AudioPlane

from volery.units import SAMPLE_RATE

Samples = npt.NDArray[np.float32]

_GROW_SAMPLES = 60 * SAMPLE_RATE
_RATES = range(1_000, 1_000_001)


def is_usable(frame: AudioFrame) -> bool:
    """Whether a frame's format and rate are ones that audio comes in; damaged headers name others."""
    has_samples = frame.samples > 0 and frame.layout.nb_channels > 0
    return has_samples and frame.format.name in format_dtypes and frame.sample_rate in _RATES


def to_mono(frame: AudioFrame) -> Samples:
    """The mean of a frame's channels, in -1 to 1.

    Samples that are not finite are silenced and those beyond full scale (float formats and lossy
    codecs have them) are clipped, as a player would. Sums are taken in float64, where those of
    integer samples are exact: the same samples give the same bits whatever container held them.
    """
    planes = _planes(frame)
    if planes.dtype.kind == "f":
        finite = np.nan_to_num(planes, nan=0.0, posinf=0.0, neginf=0.0)
        return _mean(np.clip(finite, -1.0, 1.0))
    if planes.dtype.kind == "u":
        return _mean(planes.astype(np.int16) - 128, scale=128.0)
    return _mean(planes, scale=float(1 << (8 * planes.dtype.itemsize - 1)))


def _planes(frame: AudioFrame) -> npt.NDArray[Any]:
    """The samples as they are, of shape `(channels, samples)`."""
    dtype, channels = np.dtype(format_dtypes[frame.format.name]), frame.layout.nb_channels
    if not frame.format.is_planar:
        packed = np.frombuffer(memoryview(AudioPlane(frame, 0)), dtype, frame.samples * channels)
        return np.ascontiguousarray(packed.reshape(-1, channels).T)
    # Not `to_ndarray`: in PyAV 18 it reads beyond the last plane of eight or more, and crashes the process.
    return np.stack(
        [np.frombuffer(memoryview(AudioPlane(frame, index)), dtype, frame.samples) for index in range(channels)]
    )


def _mean(planes: npt.NDArray[Any], scale: float = 1.0) -> Samples:
    total: npt.NDArray[np.float64] = np.add.reduce(planes, axis=0, dtype=np.float64)
    return (total / (len(planes) * scale)).astype(np.float32)


class Resampler:
    """Collects mono samples of one rate or of several in turn, as one array at 16 kHz.

    FFmpeg's resampler works through whole seconds, however the samples came in: the output does
    not depend on the sizes of packets, and a step takes little memory at any rate.
    """

    def __init__(self) -> None:
        self._output = np.empty(0, np.float32)
        self._length = 0
        self._start(SAMPLE_RATE)

    def add(self, samples: Samples, rate: int) -> None:
        """Take samples at `rate` a second."""
        if rate != self._rate:
            self._flush()
            self._start(rate)
        self._pending.append(samples)
        self._pending_length += len(samples)
        if self._pending_length >= rate:
            self._resample_pending(rate)

    def finish(self) -> Samples:
        """Everything, to the last sample; nothing can be added afterwards."""
        self._flush()
        self._output.resize(self._length, refcheck=False)
        return self._output

    def _start(self, rate: int) -> None:
        self._rate = rate
        self._pending: list[Samples] = []
        self._pending_length = 0
        self._engine = av.AudioResampler("flt", "mono", SAMPLE_RATE)

    def _flush(self) -> None:
        self._resample_pending(1)
        if self._rate != SAMPLE_RATE:
            for frame in self._engine.resample(None):
                self._keep(frame.to_ndarray()[0])

    def _resample_pending(self, at_least: int) -> None:
        joined = np.concatenate([np.empty(0, np.float32), *self._pending])
        whole = len(joined) - len(joined) % at_least
        for start in range(0, whole, self._rate):
            self._resample(joined[start : min(start + self._rate, whole)])
        self._pending = [joined[whole:]]
        self._pending_length = len(joined) - whole

    def _resample(self, block: Samples) -> None:
        if self._rate == SAMPLE_RATE:
            self._keep(block)
            return
        frame = AudioFrame.from_ndarray(block[np.newaxis], format="flt", layout="mono")
        frame.sample_rate = self._rate
        frame.time_base = Fraction(1, self._rate)
        for resampled in self._engine.resample(frame):
            self._keep(resampled.to_ndarray()[0])

    def _keep(self, block: Samples) -> None:
        end = self._length + len(block)
        if end > len(self._output):
            # In place: a second array of two hours would be another half GiB. No view of it is ever handed out.
            self._output.resize(max(end, self._length + _GROW_SAMPLES), refcheck=False)
        np.clip(block, -1.0, 1.0, out=self._output[self._length : end])
        self._length = end
