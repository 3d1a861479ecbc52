"""Sequences of digits as training and judging need them: where each word lies is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import fft

from pocket_parakeet.clips import WORDS, Clip
from pocket_parakeet.noise import COLOURS, SAMPLE_RATE, Samples, amplitude, coloured, rms

_COUNTS = (0, *range(1, 13))
_COUNT_ODDS = (0.12, 0.32, 0.12, 0.10, 0.08, 0.06, 0.05, 0.04, 0.03, 0.02, 0.02, 0.02, 0.02)
_NOISE_POOL_S = 40


@dataclass(frozen=True, slots=True)
class SpokenWord:
    """A digit and where it lies, in seconds."""

    digit: int
    start_s: float
    end_s: float

    @property
    def text(self) -> str:
        """The word as it is written."""
        return WORDS[self.digit]


@dataclass(frozen=True, slots=True, eq=False)
class SpokenSequence:
    """16 kHz mono samples and the digits in them."""

    samples: Samples
    words: tuple[SpokenWord, ...]

    @property
    def text(self) -> str:
        """What is said."""
        return " ".join(word.text for word in self.words)


def join(clips: Sequence[Clip], gaps_s: Sequence[float]) -> SpokenSequence:
    """Clips one after another; `gaps_s` is the silence before each and, last, after all of them."""
    pieces, words, at = [], [], 0
    for clip, gap_s in zip(clips, gaps_s, strict=False):
        gap = round(gap_s * SAMPLE_RATE)
        pieces += [np.zeros(gap, np.float32), clip.samples]
        words.append(SpokenWord(clip.digit, (at + gap) / SAMPLE_RATE, (at + gap + len(clip.samples)) / SAMPLE_RATE))
        at += gap + len(clip.samples)
    pieces.append(np.zeros(round(gaps_s[-1] * SAMPLE_RATE), np.float32))
    return SpokenSequence(np.concatenate(pieces), tuple(words))


class Composer:
    """Makes training sequences without end, no two alike."""

    def __init__(self, people: Sequence[Clip], synthetic: Sequence[Clip], rng: np.random.Generator) -> None:
        self._rng = rng
        self._groups = [_by_voice(clips) for clips in (people, synthetic) if clips]
        self._noise = {colour: coloured(colour, _NOISE_POOL_S * SAMPLE_RATE, rng) for colour in COLOURS}

    def compose(self) -> SpokenSequence:
        """One sequence of nought to twelve digits."""
        count = int(self._rng.choice(_COUNTS, p=_COUNT_ODDS))
        return self._spoken(count) if count else self._silent()

    def _spoken(self, count: int) -> SpokenSequence:
        clips = [self._varied(clip) for clip in self._chosen(count)]
        edges_s = (0.0, 0.0) if self._rng.random() < 0.4 else (self._edge_s(), self._edge_s())
        sequence = join(clips, [edges_s[0], *self._gaps_s(count - 1), edges_s[1]])
        return SpokenSequence(self._recorded(sequence.samples), sequence.words)

    def _silent(self) -> SpokenSequence:
        """Silence or noise, steady or in bursts, at any level."""
        count = int(self._rng.uniform(0.2, 8.0) * SAMPLE_RATE)
        if self._rng.random() < 0.25:
            samples = np.zeros(count, np.float32)
        else:
            samples = self._some_noise(count) * self._envelope(count) * amplitude(self._rng.uniform(-65, -6))
            samples = self._filtered(samples)
        return SpokenSequence(self._spoilt(samples), ())

    def _chosen(self, count: int) -> list[Clip]:
        """Digits of one voice or of several, about twice as often of people as of synthetic voices."""
        rng = self._rng
        voices = self._groups[-1 if rng.random() < 0.35 else 0]
        names = list(voices)
        one = names[rng.integers(len(names))]
        same = rng.random() < 0.6
        spoken_by = [one if same else names[rng.integers(len(names))] for _ in range(count)]
        return [voices[name][rng.integers(len(voices[name]))] for name in spoken_by]

    def _varied(self, clip: Clip) -> Clip:
        """The clip at another speed and pitch, and a little louder or softer."""
        speed = float(np.exp(np.clip(self._rng.normal(0.0, 0.17), -0.35, 0.35)))
        at = np.arange(0, len(clip.samples) - 1, speed)
        samples = np.interp(at, np.arange(len(clip.samples)), clip.samples).astype(np.float32)
        return Clip(clip.digit, clip.voice, samples * np.float32(amplitude(self._rng.normal(0, 2.5))))

    def _gaps_s(self, count: int) -> list[float]:
        longest = self._rng.choice([0.15, 0.5, 1.0])
        return [float(gap) for gap in self._rng.uniform(0.03, longest, count)]

    def _edge_s(self) -> float:
        kind = self._rng.random()
        if kind < 0.25:
            return 0.0
        if kind < 0.96:
            return float(self._rng.uniform(0.0, 0.7))
        return float(self._rng.uniform(1.0, 20.0 if kind > 0.985 else 5.0))

    def _recorded(self, samples: Samples) -> Samples:
        """As some microphone heard it: most through some filter, some noisy, spoilt and at any level."""
        rng = self._rng
        rough = rng.random() < 0.3
        loud = samples[samples != 0.0]
        level = np.float32(amplitude(rng.uniform(-40, -10) if rough else rng.uniform(-28, -14)) / max(rms(loud), 1e-6))
        if rng.random() < 0.7:
            noise = self._some_noise(len(samples)) * self._envelope(len(samples), steady=0.8)
            samples = samples + noise * np.float32(rms(loud) * amplitude(-rng.uniform(8 if rough else 25, 45)))
        if rough or rng.random() < 0.6:
            samples = self._filtered(samples)
        return self._spoilt(samples * level) if rough else np.clip(samples * level, -1.0, 1.0)

    def _some_noise(self, count: int) -> Samples:
        pool = self._noise[COLOURS[self._rng.integers(len(COLOURS))]]
        start = int(self._rng.integers(len(pool)))
        return np.take(pool, np.arange(start, start + count), mode="wrap")

    def _envelope(self, count: int, steady: float = 0.5) -> Samples | np.float32:
        """One, or a loudness that rises and falls as words do."""
        if self._rng.random() < steady:
            return np.float32(1.0)
        knots = max(2, int(count / SAMPLE_RATE * self._rng.uniform(1, 8)))
        levels = self._rng.uniform(0.0, 1.0, knots) ** 2
        return np.interp(np.linspace(0, knots - 1, count), np.arange(knots), levels).astype(np.float32)

    def _filtered(self, samples: Samples) -> Samples:
        """Through a random smooth equaliser and, at times, a narrow band."""
        rng = self._rng
        length = fft.next_fast_len(len(samples), real=True)
        frequencies = fft.rfftfreq(length, 1 / SAMPLE_RATE)
        knots = np.log([60.0, 200.0, 500.0, 1000.0, 2000.0, 4000.0])
        gains_db = np.interp(np.log(np.maximum(frequencies, 20.0)), knots, rng.normal(0, 5.0, len(knots)))
        if rng.random() < 0.35:
            low, high = rng.uniform(60, 350), rng.uniform(2600, 4000)
            octaves = np.log2(np.maximum(frequencies, 1.0) / low), np.log2(np.maximum(frequencies, 1.0) / high)
            gains_db = gains_db - 18 * np.maximum(-octaves[0], 0) - 24 * np.maximum(octaves[1], 0)
        curve = (10.0 ** (np.maximum(gains_db, -80) / 20)).astype(np.float32)
        filtered: Samples = fft.irfft(fft.rfft(samples, length) * curve, length)[: len(samples)].astype(np.float32)
        return filtered

    def _spoilt(self, samples: Samples) -> Samples:
        """Now and then with an offset, coarse steps or clipping."""
        rng = self._rng
        if rng.random() < 0.05:
            samples = samples + np.float32(rng.uniform(-0.3, 0.3))
        if rng.random() < 0.1:
            steps = 2.0 ** rng.integers(8, 13)
            samples = (np.round(samples * steps) / steps).astype(np.float32)
        return np.clip(samples, -1.0, 1.0)


def _by_voice(clips: Sequence[Clip]) -> dict[str, list[Clip]]:
    voices: dict[str, list[Clip]] = {}
    for clip in clips:
        voices.setdefault(clip.voice, []).append(clip)
    return voices
