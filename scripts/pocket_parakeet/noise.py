"""Noise of several colours, and the absence of it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Samples = npt.NDArray[np.float32]

SAMPLE_RATE = 16_000
COLOURS = ("white", "pink", "brown", "hum")

_SLOPES = {"white": 0.0, "pink": 0.5, "brown": 1.0}
"""By which power of the frequency the amplitude falls."""


def coloured(colour: str, count: int, rng: np.random.Generator) -> Samples:
    """`count` samples of noise with a root mean square of 1."""
    sound = _hum(count, rng) if colour == "hum" else _falling(_SLOPES[colour], count, rng)
    return sound / np.float32(max(rms(sound), 1e-9))


def _falling(slope: float, count: int, rng: np.random.Generator) -> Samples:
    white: Samples = rng.standard_normal(count).astype(np.float32)
    if slope == 0.0:
        return white
    frequencies = np.fft.rfftfreq(count, 1 / SAMPLE_RATE)
    falling: Samples = np.fft.irfft(np.fft.rfft(white) / np.maximum(frequencies, 20.0) ** slope, count)
    return falling.astype(np.float32)


def _hum(count: int, rng: np.random.Generator) -> Samples:
    """Mains hum of 50 or 60 Hz with falling harmonics."""
    base = rng.choice([50.0, 60.0])
    time = np.arange(count, dtype=np.float32) / SAMPLE_RATE
    partials = [
        rng.uniform(0.2, 1.0) / n * np.sin(2 * np.pi * n * base * time + rng.uniform(0, 2 * np.pi)) for n in range(1, 9)
    ]
    return np.sum(partials, axis=0, dtype=np.float32)


def rms(samples: Samples) -> float:
    """Root mean square."""
    return float(np.sqrt(np.mean(np.square(samples, dtype=np.float64)))) if len(samples) else 0.0


def amplitude(decibels: float) -> float:
    """The amplitude of a level in dB of full scale."""
    return float(10.0 ** (decibels / 20))
