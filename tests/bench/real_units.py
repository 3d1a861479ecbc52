"""Units of real speech, made at run time from the audio beside the checkout: for benches with real models.

python tests/bench/real_units.py ../shared/data FOLDER
"""

from __future__ import annotations

import json
import random
import sys
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CLIP_SECONDS = 6.0
CLIPS_A_MEETING = 5
DIGIT_UNITS = 14
SILENT_UNITS = 4
_DIGIT_RATE = 8_000
_PAUSE_S = 0.25


def write_manifest(data: Path, folder: Path) -> Path:
    """A manifest of 63 units: clips of meetings, rows of spoken digits, and silence."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [*_meetings(data / "ami"), *_digits(data / "fsdd", folder), *_silences(folder)]
    manifest = folder / "manifest.jsonl"
    manifest.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return manifest


def _meetings(folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.glob("*.wav")):
        for number in range(CLIPS_A_MEETING):
            start_s = number * CLIP_SECONDS
            clip = {"start_s": start_s, "end_s": start_s + CLIP_SECONDS}
            yield {"key": f"{path.stem}-{number}", "path": str(path.resolve()), "clip": clip}


def _digits(folder: Path, out: Path) -> Iterator[dict[str, Any]]:
    """Rows of three to nine digits, said by one person or by two in turn, from takes held out of training."""
    takes = sorted(path for path in folder.glob("*.wav") if int(path.stem.rpartition("_")[2]) < 5)
    people = sorted({path.stem.split("_")[1] for path in takes})
    dice = random.Random(5)
    pause = bytes(2 * round(_PAUSE_S * _DIGIT_RATE))
    for number in range(DIGIT_UNITS):
        who = dice.sample(people, 1 + number % 2)
        said = [dice.choice([one for one in takes if one.stem.split("_")[1] in who]) for _ in range(3 + number % 7)]
        key = f"digits-{number}-" + "".join(path.stem[0] for path in said)
        yield {"key": key, "path": _write(out / f"{key}.wav", pause.join(_samples(path) for path in said))}


def _silences(out: Path) -> Iterator[dict[str, Any]]:
    for number in range(SILENT_UNITS):
        path = _write(out / f"silence-{number}.wav", bytes(2 * _DIGIT_RATE * (1 + 2 * number)))
        yield {"key": f"silence-{number}", "path": path}


def _samples(path: Path) -> bytes:
    with wave.open(str(path)) as file:
        return file.readframes(file.getnframes())


def _write(path: Path, samples: bytes) -> str:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(_DIGIT_RATE)
        file.writeframes(samples)
    return path.name


if __name__ == "__main__":
    sys.stdout.write(f"{write_manifest(Path(sys.argv[1]), Path(sys.argv[2]))}\n")
