"""What the referee hears: Whisper through CTranslate2 on a CPU, through torch on an accelerator.

CTranslate2 wants another CUDA than the pinned torch. Both hear the same stretches of speech, cut by
a VAD of its own: without one, noise makes Whisper invent words by the hundred, and in a longer piece
one loop of words spoils all that follows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from faster_whisper.vad import VadOptions, collect_chunks, get_speech_timestamps

from volery.referee.cases import Heard, Listener, RefereeError, RefereeReason
from volery.referee.devices import Choice, Devices, TorchDevices, wanted_device
from volery.referee.models import CPU_FILE, TORCH_FILE, Asked, asked_models, choose_for
from volery.settings import Settings
from volery.speech.asr import asked_language
from volery.speech.models import Weights
from volery.speech.quiet import hush
from volery.speech.whisper import WhisperEngine
from volery.speech.windows import SpeechWindow
from volery.units import SAMPLE_RATE, ConfigurationError, UnitRejected

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Samples = npt.NDArray[np.float32]

WINDOW_S = 30.0
"""What Whisper hears at once, in seconds."""


class Engine(Protocol):
    """A Whisper that hears windows of at most `WINDOW_S`."""

    @property
    def languages(self) -> frozenset[str]:
        """The codes of the languages that it knows."""
        ...

    def hear(self, windows: Sequence[Samples], language: str | None) -> list[Heard]:
        """What is said in each window, in order; the language is one of `languages`, or left to the engine."""
        ...


@dataclass(frozen=True, slots=True)
class Listeners:
    """The referee's models, and the device that they are on for as long as the process lives.

    The second, which is fetched but not loaded yet, is missing where the settings name one model for both.
    """

    choice: Choice
    first: Listener
    load_second: Callable[[], Listener] | None


class WindowedListener:
    """Hears audio of any length, a window of speech at a time."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def hear(self, samples: Samples, language: str | None) -> Heard:
        """See `Listener.hear`."""
        try:
            code = asked_language(language, self._engine.languages)
        except UnitRejected as error:
            raise RefereeError(RefereeReason.LANGUAGE, f"the referee does not know the language: {error}") from error
        windows = speech_windows(samples)
        heard = self._engine.hear(windows, code)
        seconds: Counter[str] = Counter()
        for window, one in zip(windows, heard, strict=True):
            if one.text and one.language is not None:
                seconds[one.language] += len(window)
        spoken = seconds.most_common(1)[0][0] if seconds else code
        return Heard(" ".join(one.text for one in heard if one.text), spoken)


def speech_windows(samples: Samples) -> list[Samples]:
    """All speech of a unit, in order, as windows of at most `WINDOW_S`; the pauses between are left out."""
    options = VadOptions(max_speech_duration_s=WINDOW_S)
    speech = get_speech_timestamps(samples, options, SAMPLE_RATE) if len(samples) else []
    windows, _ = collect_chunks(samples, speech, SAMPLE_RATE, WINDOW_S)
    return [window for window in windows if len(window)]


class CpuWhisper:
    """Whisper through CTranslate2, in int8."""

    def __init__(self, engine: WhisperEngine) -> None:
        self._engine = engine
        self.languages = engine.languages

    def hear(self, windows: Sequence[Samples], language: str | None) -> list[Heard]:
        """See `Engine.hear`."""
        found = self._engine.transcribe([SpeechWindow(0, 0.0, window, language) for window in windows])
        return [Heard(" ".join(word.text for word in one.words), one.language) for one in found]


def load_listeners(settings: Settings, *, in_worker: bool, devices: Devices | None = None) -> Listeners:
    """Fetch both models and load the first, on the device that is chosen here and stays.

    Raises:
        ConfigurationError: a model cannot be found, fetched or loaded, or is not what is pinned; or
            the device that is insisted on cannot be had.
    """
    hush()
    asked = asked_models(settings)
    wanted = wanted_device(settings.referee.referee_device, in_worker=in_worker)
    choice = choose_for(asked, devices or TorchDevices(), wanted)
    threads = settings.referee.referee_cpu_threads
    first, second = (one.model(choice.kind).fetch() for one in asked)
    same = first.path == second.path
    return Listeners(
        choice,
        _listener(asked[0], first, choice, threads),
        None if same else lambda: _listener(asked[1], second, choice, threads),
    )


def _listener(asked: Asked, weights: Weights, choice: Choice, threads: int) -> Listener:
    file = TORCH_FILE if choice.kind == "cuda" else CPU_FILE
    if not (weights.path / file).is_file():
        raise ConfigurationError(f"{asked.setting}: {weights.name} holds no {file}, which the {choice.kind} needs")
    weights.checked()
    try:
        return WindowedListener(_engine(weights, choice, threads))
    except (RuntimeError, ValueError, OSError) as error:
        raise ConfigurationError(f"{asked.setting}: {weights.name} cannot be loaded: {error}") from error


def _engine(weights: Weights, choice: Choice, threads: int) -> Engine:
    if choice.kind == "cpu":
        return CpuWhisper(WhisperEngine(Path(weights.path), weights.info("referee"), threads))
    from volery.referee.torch_whisper import TorchWhisper

    return TorchWhisper(weights.path, choice.device, threads)
