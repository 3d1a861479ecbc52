"""Real audio as the speech pipeline gets it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from volery.audio import decode
from volery.units import SAMPLE_RATE, Audio, AudioInfo, PreparedUnit, Unit, UnitOptions

Samples = npt.NDArray[np.float32]


def decoded(path: Path) -> Samples:
    """A file's samples, mono at 16 kHz."""
    with path.open("rb") as stream:
        return decode(stream, path.name, clip=None, max_seconds=7200).samples


def prepared(samples: Samples, key: str = "unit", **options: int | str) -> PreparedUnit:
    """A unit whose preparation is done."""
    info = AudioInfo(key, "0" * 64, "wav", "pcm", SAMPLE_RATE, 1, len(samples) / SAMPLE_RATE)
    return PreparedUnit(Unit(key, f"{key}.wav", options=UnitOptions(**options)), Audio(samples, info))


def silence(seconds: float) -> Samples:
    """Digital silence."""
    return np.zeros(round(seconds * SAMPLE_RATE), dtype=np.float32)
