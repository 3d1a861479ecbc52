"""Make the conversation that `volery demo` shows its Parakeet with: two people read digits to each other.

    python scripts/make_digit_conversation.py

writes `digits.flac`, and who says which digit when as `digits.json`, into the package's samples.
Needs `espeak-ng`, whose voices speak, and `volery[worker]`; where their versions are the same, so are the files.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import av
import numpy as np
import typer

from pocket_parakeet.clips import WORDS, Clip
from pocket_parakeet.noise import SAMPLE_RATE, Samples, amplitude, coloured, rms
from pocket_parakeet.sequences import SpokenSequence, join
from volery import audio

SAMPLES = Path(__file__).resolve().parent.parent / "backend" / "volery" / "samples"

LEVEL_DB = -22.0
NOISE_DB = -72.0
EDGE_S = 0.6
SEED = 7


@dataclass(frozen=True)
class Voice:
    """A voice of espeak-ng: its name there, words a minute and pitch from 0 to 99."""

    name: str
    speed: int
    pitch: int


VOICES = {"he": Voice("en-us+m2", 150, 30), "she": Voice("en-us+f1", 150, 65)}

TURNS = (
    ("he", "5550142"),
    ("she", "0142"),
    ("he", "93"),
    ("she", "68"),
    ("he", "7"),
    ("she", "7685"),
    ("he", "93"),
)
"""Who reads which digits, one turn after the other."""


def main(folder: Annotated[Path, typer.Option(help="Where the two files go.")] = SAMPLES) -> None:
    """Write the conversation and its reference."""
    rng = np.random.default_rng(SEED)
    spoken, speakers = converse(rng)
    noise = coloured("pink", len(spoken.samples), rng) * np.float32(amplitude(NOISE_DB))
    write_flac(folder / "digits.flac", spoken.samples * np.float32(amplitude(LEVEL_DB)) + noise)
    write_reference(folder / "digits.json", spoken, speakers)


def converse(rng: np.random.Generator) -> tuple[SpokenSequence, list[str]]:
    """The conversation at unit level, and who says each word of it."""
    clips: list[Clip] = []
    gaps_s: list[float] = []
    speakers: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        for speaker, digits in TURNS:
            clips += [say(int(digit), VOICES[speaker], Path(folder)) for digit in digits]
            gaps_s += [rng.uniform(0.5, 0.9), *rng.uniform(0.06, 0.2, len(digits) - 1)]
            speakers += [speaker] * len(digits)
    gaps_s[0] = EDGE_S
    return join(clips, [*gaps_s, EDGE_S]), speakers


def say(digit: int, voice: Voice, folder: Path) -> Clip:
    """One digit, without silence around it and of unit level."""
    path = folder / "said.wav"
    command = ["espeak-ng", "-v", voice.name, "-s", str(voice.speed), "-p", str(voice.pitch), "-w", str(path)]
    subprocess.run([*command, WORDS[digit]], check=True)
    with path.open("rb") as stream:
        samples = audio.decode(stream, path.name, clip=None, max_seconds=10.0).samples
    loud = np.flatnonzero(np.abs(samples) > 0.02 * np.abs(samples).max())
    samples = samples[loud[0] : loud[-1] + 1]
    return Clip(digit, voice.name, samples / np.float32(rms(samples)))


def write_flac(path: Path, samples: Samples) -> None:
    """16 kHz mono in 16 bits."""
    pcm = np.round(np.clip(samples, -1.0, 1.0) * 32767).astype(np.int16)
    with av.open(str(path), "w") as file:
        stream = file.add_stream("flac", rate=SAMPLE_RATE, layout="mono", options={"compression_level": "12"})
        frame = av.AudioFrame.from_ndarray(pcm[None], format="s16", layout="mono")
        frame.sample_rate = SAMPLE_RATE
        file.mux(stream.encode(frame))
        file.mux(stream.encode(None))


def write_reference(path: Path, spoken: SpokenSequence, speakers: Sequence[str]) -> None:
    """Each word with its speaker and its time, a line each."""
    lines = (json.dumps(entry) for entry in _entries(spoken, speakers))
    path.write_text("[\n " + ",\n ".join(lines) + "\n]\n", encoding="utf-8")


def _entries(spoken: SpokenSequence, speakers: Sequence[str]) -> Iterator[dict[str, str | float]]:
    for word, speaker in zip(spoken.words, speakers, strict=True):
        times = {"start_s": round(word.start_s, 3), "end_s": round(word.end_s, 3)}
        yield {"text": word.text, **times, "speaker": speaker}


if __name__ == "__main__":
    typer.run(main)
