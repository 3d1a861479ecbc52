"""What a pocket Parakeet hears, measured through the engine that the worker runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from nemo.collections.asr.metrics.wer import word_error_rate

from pocket_parakeet.clips import Clip
from pocket_parakeet.noise import COLOURS, SAMPLE_RATE, Samples, amplitude, coloured
from pocket_parakeet.sequences import SpokenSequence, SpokenWord, join
from volery.audio import decode
from volery.speech.asr import HypothesisWord
from volery.speech.decoding_mode import DecodingMode
from volery.speech.parakeet import ParakeetOptions, load_parakeet
from volery.speech.precision import Precision
from volery.speech.windows import SpeechWindow

_LEVEL_DB = -22.0
_LONGEST_CASE_S = 60.0


@dataclass(frozen=True, slots=True)
class TimeErrors:
    """How far word times lie from the truth, in seconds: `lean` is the signed median, early is below zero."""

    words: int
    start_median_s: float
    start_p90_s: float
    start_lean_s: float
    end_median_s: float
    end_p90_s: float
    end_lean_s: float


@dataclass(frozen=True, slots=True)
class Heard:
    """What was said in a file, and what the model heard in it."""

    said: str
    heard: str


@dataclass(frozen=True, slots=True)
class Figures:
    """Word error rates from 0 up, invented words by sound, and the times of words in joined sequences."""

    wer_takes: float
    wer_takes_by_speaker: dict[str, float]
    wer_joined: float
    invented: dict[str, str]
    times: TimeErrors | None
    cases: dict[str, Heard]


class Listener:
    """A model file, ready to transcribe on the CPU."""

    def __init__(self, model: Path) -> None:
        options = ParakeetOptions(DecodingMode(graphs=False), Precision(torch.float32, tf32=False))
        self._engine = load_parakeet(str(model), torch.device("cpu"), options)

    def words(self, samples: Samples) -> tuple[HypothesisWord, ...]:
        """The words in 16 kHz samples."""
        return self._engine.transcribe([SpeechWindow(0, 0.0, samples)])[0].words

    def text(self, samples: Samples) -> str:
        """What is heard in 16 kHz samples."""
        return _text(self.words(samples))


def evaluate(model: Path, takes: Sequence[Clip], sequences: int, cases: Path | None, seed: int) -> Figures:
    """Every figure: on single takes, on so many sequences joined from them, on sounds without words, on odd files."""
    listener = Listener(model)
    singles = {take: _hear(listener, _single(take)) for take in takes}
    spoken = joined(takes, sequences, np.random.default_rng(seed))
    found = [listener.words(sequence.samples) for sequence in spoken]
    return Figures(
        wer_takes=_wer(list(singles.values())),
        wer_takes_by_speaker={
            voice: _wer([heard for take, heard in singles.items() if take.voice == voice]) for voice in _voices(takes)
        },
        wer_joined=_wer([Heard(said.text, _text(words)) for said, words in zip(spoken, found, strict=True)]),
        invented=_invented(listener, wordless(np.random.default_rng(seed))),
        times=_time_errors(spoken, found),
        cases=_hear_cases(listener, cases) if cases else {},
    )


def _hear(listener: Listener, sequence: SpokenSequence) -> Heard:
    return Heard(sequence.text, listener.text(sequence.samples))


def _text(words: Sequence[HypothesisWord]) -> str:
    return " ".join(word.text for word in words)


def _voices(takes: Sequence[Clip]) -> list[str]:
    return sorted({take.voice for take in takes})


def _single(take: Clip) -> SpokenSequence:
    return _levelled(join([take], [0.0, 0.0]))


def joined(takes: Sequence[Clip], count: int, rng: np.random.Generator) -> list[SpokenSequence]:
    """Sequences of 1 to 12 takes of one voice each, with pauses, over faint noise."""
    voices = _voices(takes)
    sequences = []
    for index in range(count):
        own = [take for take in takes if take.voice == voices[index % len(voices)]]
        clips = [own[rng.integers(len(own))] for _ in range(rng.integers(1, 13))]
        sequence = _levelled(join(clips, list(rng.uniform(0.03, 0.8, len(clips) + 1))))
        noise = coloured("pink", len(sequence.samples), rng) * np.float32(amplitude(_LEVEL_DB - 30))
        sequences.append(SpokenSequence(sequence.samples + noise, sequence.words))
    return sequences


def _levelled(sequence: SpokenSequence) -> SpokenSequence:
    return SpokenSequence(sequence.samples * np.float32(amplitude(_LEVEL_DB)), sequence.words)


def wordless(rng: np.random.Generator) -> dict[str, Samples]:
    """Ten seconds each of silence and of noise of every colour and level."""
    count = 10 * SAMPLE_RATE
    sounds = {
        f"{colour} {level} dB": coloured(colour, count, rng) * np.float32(amplitude(level))
        for colour in COLOURS
        for level in (-60, -45, -30, -20, -10)
    }
    return {"silence": np.zeros(count, np.float32), "offset": np.full(count, 0.2, np.float32), **sounds}


def _invented(listener: Listener, sounds: Mapping[str, Samples]) -> dict[str, str]:
    """The words heard where there are none, by sound."""
    heard = {name: listener.text(np.clip(samples, -1.0, 1.0)) for name, samples in sounds.items()}
    return {name: text for name, text in heard.items() if text}


def _hear_cases(listener: Listener, folder: Path) -> dict[str, Heard]:
    """The files of a manifest whose words are known, none among them."""
    entries = json.loads((folder / "manifest.json").read_text())
    known = [entry for entry in entries if "digits" in entry or entry.get("class") == "no_speech"]
    return {
        entry["file"]: Heard(entry.get("digits", ""), listener.text(decoded(folder / entry["file"]))) for entry in known
    }


def decoded(path: Path) -> Samples:
    """A file as the worker decodes it."""
    with path.open("rb") as stream:
        return decode(stream, path.name, clip=None, max_seconds=_LONGEST_CASE_S).samples


def _wer(pairs: Sequence[Heard]) -> float:
    return round(float(word_error_rate([pair.heard for pair in pairs], [pair.said for pair in pairs])), 4)


def _time_errors(sequences: Sequence[SpokenSequence], heard: Sequence[Sequence[HypothesisWord]]) -> TimeErrors | None:
    """Over the sequences heard without an error, where it is certain which word is which; none if there are none."""
    pairs: list[tuple[SpokenWord, HypothesisWord]] = []
    for sequence, words in zip(sequences, heard, strict=True):
        if [word.text for word in words] == [word.text for word in sequence.words]:
            pairs += zip(sequence.words, words, strict=True)
    if not pairs:
        return None
    starts = [found.start_s - true.start_s for true, found in pairs]
    ends = [found.end_s - true.end_s for true, found in pairs]
    return TimeErrors(len(pairs), *_spread(starts), *_spread(ends))


def _spread(errors: Sequence[float]) -> tuple[float, float, float]:
    """Median and ninth decile of the distance, and the signed median."""
    distances = np.abs(errors)
    values = (np.median(distances), np.quantile(distances, 0.9), np.median(errors))
    median, decile, lean = (round(float(value), 3) for value in values)
    return median, decile, lean
