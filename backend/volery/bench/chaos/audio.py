"""Audio whose digest is known: noise, a different one for every unit."""

from __future__ import annotations

import hashlib
import io
import random
import wave
from pathlib import Path

import numpy as np

from volery.audio import decode
from volery.units import SAMPLE_RATE, PreparedUnit, ResultClass, Segment, Transcript, Turn, Word

_SHORTEST_S, _LONGEST_S = 0.05, 0.3


def write_noise(path: Path, seed: int) -> None:
    """Write a fraction of a second of noise as WAV."""
    seconds = random.Random(seed).uniform(_SHORTEST_S, _LONGEST_S)
    samples = np.random.default_rng(seed).integers(-9000, 9000, round(seconds * SAMPLE_RATE), dtype=np.int16)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(SAMPLE_RATE)
        file.writeframes(samples.tobytes())


def digest_of(samples: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> str:
    """The digest of decoded audio."""
    return hashlib.sha256(samples.tobytes()).hexdigest()


def digest_of_file(content: bytes) -> str:
    """The digest of the audio in a file, decoded."""
    return digest_of(decode(io.BytesIO(content), "expected", clip=None, max_seconds=60.0).samples)


def transcript_of(prepared: PreparedUnit) -> Transcript:
    """A transcript whose only word is the digest of the audio, so that a result can be checked."""
    end_s = prepared.audio.duration_s
    word = Word(digest_of(prepared.audio.samples), 0.0, end_s, 1.0, "SPEAKER_00")
    return Transcript(
        ResultClass.SPEECH,
        words=(word,),
        turns=(Turn(0.0, end_s, "SPEAKER_00"),),
        speech=(Segment(0.0, end_s),),
    )
