"""The windows that both modes hear: real speech where there is any."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gpu_checks.random_model import Samples
from gpu_checks.receipt import Sound
from volery.audio import decode
from volery.speech.models import digest_of
from volery.speech.windows import SpeechWindow
from volery.units import SAMPLE_RATE

LONGEST_AUDIO_S = 7200.0

_NOISE_S = 60.0
_LENGTHS = (1.0, 0.45, 0.8, 0.25, 0.6, 0.1)
"""Of the longest window: windows of a batch differ in length, as those of real speech do."""

_STRIDE = 0.618
"""Of the audio: where one window starts after another, so that few hear the same."""


@dataclass(frozen=True, slots=True, eq=False)
class Heard:
    """Audio at 16 kHz, where it came from, and the windows cut from it."""

    samples: Samples
    windows: tuple[SpeechWindow, ...]
    sound: Sound


def listen(files: Sequence[Path], count: int, longest_s: float) -> Heard:
    """`count` windows up to `longest_s` long: of the files, else of pyannote.audio's sample, else of noise.

    Raises:
        OSError: a file cannot be read.
        UnitError: a file cannot be decoded.
    """
    chosen = list(files) or _sample()
    samples = np.concatenate([_decoded(path) for path in chosen]) if chosen else _noise()
    windows = _cut(samples, count, longest_s)
    sound = Sound(
        source=", ".join(path.name for path in chosen) or "white noise",
        sha256=tuple(digest_of(path) for path in chosen),
        windows=len(windows),
        window_seconds=sum(window.duration_s for window in windows),
    )
    return Heard(samples, windows, sound)


def _sample() -> list[Path]:
    """The half-minute conversation that pyannote.audio carries, where it is installed."""
    try:
        spec = importlib.util.find_spec("pyannote.audio")
    except ModuleNotFoundError:
        return []
    path = Path(spec.origin).parent / "sample" / "sample.wav" if spec and spec.origin else None
    return [path] if path and path.is_file() else []


def _decoded(path: Path) -> Samples:
    with path.open("rb") as stream:
        return decode(stream, path.name, clip=None, max_seconds=LONGEST_AUDIO_S).samples


def _noise() -> Samples:
    noise = np.random.default_rng(7).normal(scale=0.1, size=round(_NOISE_S * SAMPLE_RATE))
    return np.clip(noise, -1.0, 1.0).astype(np.float32)


def _cut(samples: Samples, count: int, longest_s: float) -> tuple[SpeechWindow, ...]:
    longest = min(round(longest_s * SAMPLE_RATE), len(samples))
    windows = []
    for index in range(count):
        length = max(1, round(longest * _LENGTHS[index % len(_LENGTHS)]))
        first = round((index * _STRIDE % 1.0) * (len(samples) - length))
        windows.append(SpeechWindow(0, first / SAMPLE_RATE, samples[first : first + length]))
    return tuple(windows)
