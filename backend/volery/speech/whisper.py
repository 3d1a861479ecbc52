"""Whisper through faster-whisper, on the CPU in int8."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from faster_whisper import WhisperModel

from volery.speech.asr import Hypothesis, HypothesisWord, SwitchState, tidy
from volery.speech.choice import ASR_SETTING, NOT_PINNED, Pinned, whisper_model
from volery.speech.device import available_cpus
from volery.speech.windows import SpeechWindow
from volery.units import SAMPLE_RATE, ConfigurationError, ModelInfo

LOOP_RATIO = 2.4
"""A text that compresses better than this repeats itself (Radford et al., 2022, section 4.5)."""

SHORTEST_REST_S = 1.0
"""Whisper may go on decoding from where its last segment ended; a rest this short is the window's
padding, out of which it makes words."""

_PLAIN: dict[str, Any] = {"beam_size": 5, "no_repeat_ngram_size": 0}
_AGAINST_LOOPS: dict[str, Any] = {"beam_size": 5, "no_repeat_ngram_size": 3}
"""Sampling at higher temperatures, Whisper's own way out of a loop, depends on what was sampled
before; forbidding the loop does not."""


class WhisperEngine:
    """Transcribes one window after the other, each from nothing but itself."""

    graphs: SwitchState = "inapplicable"

    def __init__(self, folder: Path, info: ModelInfo, cpu_threads: int) -> None:
        self.info = info
        threads = cpu_threads or available_cpus()
        self._model = WhisperModel(str(folder), device="cpu", compute_type="int8", cpu_threads=threads)

    @property
    def languages(self) -> frozenset[str]:
        """The languages that can be asked for."""
        return frozenset(self._model.supported_languages)

    def transcribe(self, windows: Sequence[SpeechWindow]) -> list[Hypothesis]:
        """A hypothesis a window, in order."""
        return [self._one(window) for window in windows]

    def warm_up(self) -> None:
        """Transcribe a second of nothing."""
        self.transcribe([SpeechWindow(0, 0.0, np.zeros(SAMPLE_RATE, dtype=np.float32))])

    def _one(self, window: SpeechWindow) -> Hypothesis:
        segments, language = self._decode(window, _PLAIN)
        if any(segment.compression_ratio > LOOP_RATIO for segment in segments):
            segments, language = self._decode(window, _AGAINST_LOOPS)
        return Hypothesis(tidy(list(_words(segments)), window.duration_s), language)

    def _decode(self, window: SpeechWindow, search: dict[str, Any]) -> tuple[list[Any], str]:
        segments, info = self._model.transcribe(
            window.samples,
            language=window.language,
            temperature=0.0,
            condition_on_previous_text=False,
            word_timestamps=True,
            no_speech_threshold=0.6,
            log_prob_threshold=-1.0,
            **search,
        )
        latest_s = max(window.duration_s - SHORTEST_REST_S, 0.0)
        kept: list[Any] = []
        for segment in segments:
            if segment.seek > latest_s * self._model.frames_per_second:
                break
            kept.append(segment)
        return kept, info.language


def _words(segments: Sequence[Any]) -> Iterator[HypothesisWord]:
    for segment in segments:
        for word in segment.words or ():
            if text := word.word.strip():
                yield HypothesisWord(text, float(word.start), float(word.end), float(word.probability))


def load_whisper(name: str | None, *, embedded: bool, cpu_threads: int, pinned: Pinned = NOT_PINNED) -> WhisperEngine:
    """The engine for a folder or a hub name; unset: the embedded model, or the hub's small one.

    Raises:
        ConfigurationError: the model cannot be found, fetched or loaded, or is not what is pinned.
    """
    weights = whisper_model(name, pinned, embedded=embedded).fetch()
    if not (weights.path / "model.bin").is_file():
        raise ConfigurationError(
            f"{ASR_SETTING}={name} holds no model.bin: name a folder of a CTranslate2 Whisper model"
        )
    info = weights.checked().info("asr")
    try:
        return WhisperEngine(weights.path, info, cpu_threads)
    except (RuntimeError, ValueError) as error:
        raise ConfigurationError(f"the Whisper model {weights.name} cannot be loaded: {error}") from error
