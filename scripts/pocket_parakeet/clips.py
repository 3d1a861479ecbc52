"""Single spoken digits: people from the Free Spoken Digit Dataset and voices of espeak-ng."""

from __future__ import annotations

import itertools
import shutil
import subprocess
import wave
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np
from scipy.signal import resample_poly

from pocket_parakeet.noise import SAMPLE_RATE, Samples, rms

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")

TEST_TAKES = range(5)
"""The dataset's own convention: takes 0 to 4 are for testing."""

VALIDATION_TAKES = range(47, 50)
"""Kept from training to choose a checkpoint by."""

TRAINING_TAKES = range(5, 47)
ALL_TAKES = range(50)

_LANGUAGES = (
    "en-us",
    "en-gb",
    "en-gb-scotland",
    "en-gb-x-rp",
    "en-gb-x-gbclan",
    "en-gb-x-gbcwmd",
    "en-029",
    "en-us-nyc",
)
_VARIANTS = (
    *(f"m{n}" for n in range(1, 9)),
    *(f"f{n}" for n in range(1, 6)),
    *("klatt", "klatt2", "klatt4", "Storm", "Annie", "Gene", "Andy", "Michael", "Lee", "linda", "rob", "travis"),
)


@dataclass(frozen=True, slots=True, eq=False)
class Clip:
    """One digit said once, without silence around it, at 16 kHz with a root mean square of 1."""

    digit: int
    voice: str
    samples: Samples


def speakers(data: Path) -> set[str]:
    """Who speaks in a folder of `{digit}_{speaker}_{take}.wav`."""
    return {path.stem.split("_")[1] for path in data.glob("*_*_*.wav")}


def people(data: Path, takes: Collection[int], of: Collection[str]) -> list[Clip]:
    """These takes of these speakers."""
    clips = []
    for path in sorted(data.glob("*_*_*.wav")):
        digit, voice, take = path.stem.split("_")
        if int(take) in takes and voice in of:
            clips.append(Clip(int(digit), voice, _prepared(path.read_bytes())))
    return clips


def synthetic(cache: Path, seed: int) -> list[Clip]:
    """Digits in many voices of espeak-ng, made once and kept in `cache`; none where it is not installed."""
    if not cache.exists():
        if shutil.which("espeak-ng") is None:
            print("espeak-ng is not installed: training without synthetic voices", flush=True)
            return []
        _synthesise(cache, seed)
    with np.load(cache) as kept:
        return [Clip(int(name.split("_")[0]), name.split("_")[1], kept[name].astype(np.float32)) for name in kept.files]


def _synthesise(cache: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    orders = list(_orders(rng))
    with ThreadPoolExecutor(2) as pool:
        sounds = pool.map(lambda order: _prepared(_espeak(*order)), orders)
        clips = {
            f"{WORDS.index(order[0])}_{order[1]}_{n}": sound
            for n, (order, sound) in enumerate(zip(orders, sounds, strict=True))
        }
    np.savez(cache, allow_pickle=False, **{name: clip.astype(np.float16) for name, clip in clips.items()})


def _orders(rng: np.random.Generator) -> Iterator[tuple[str, str, int, int]]:
    """Word, voice, words a minute and pitch of every synthetic clip."""
    for (language, variant), word in itertools.product(_voices(rng), WORDS):
        yield word, f"{language}+{variant}", int(rng.integers(110, 220)), int(rng.integers(15, 85))


def _voices(rng: np.random.Generator) -> list[tuple[str, str]]:
    pairs = list(itertools.product(_LANGUAGES, _VARIANTS))
    return [pairs[index] for index in rng.permutation(len(pairs))[:120]]


def _espeak(word: str, voice: str, speed: int, pitch: int) -> bytes:
    command = ["espeak-ng", "-v", voice, "-s", str(speed), "-p", str(pitch), "--stdout", word]
    return subprocess.run(command, check=True, capture_output=True).stdout


def _prepared(content: bytes) -> Samples:
    """A 16-bit mono WAV at 16 kHz, trimmed and of unit level."""
    with wave.open(BytesIO(content)) as sound:
        rate = sound.getframerate()
        samples = np.frombuffer(sound.readframes(sound.getnframes()), dtype=np.int16) / 32768
    divisor = np.gcd(rate, SAMPLE_RATE)
    trimmed = _trimmed(resample_poly(samples, SAMPLE_RATE // divisor, rate // divisor).astype(np.float32))
    return trimmed / max(rms(trimmed), 1e-6)


def _trimmed(samples: Samples, below_loudest: float = 0.02, step: int = 160) -> Samples:
    """Without what is 34 dB below the loudest ten milliseconds at either end."""
    blocks = samples[: len(samples) // step * step].reshape(-1, step)
    levels = np.sqrt(np.mean(blocks**2, axis=1))
    loud = np.flatnonzero(levels > below_loudest * levels.max())
    return samples[loud[0] * step : (loud[-1] + 1) * step]
