"""What the referee hears: Whisper through CTranslate2 on a CPU, through torch on an accelerator.

CTranslate2 wants another CUDA than the pinned torch. Both hear speech windows: noise makes a Whisper
without a VAD invent words by the hundred, and a unit that it hears as a whole may end in one loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

import numpy as np

from volery.referee.cases import Heard, Listener, RefereeError, RefereeReason
from volery.referee.devices import Choice, Devices, TorchDevices, wanted_device
from volery.referee.models import CPU_FILE, TORCH_FILE, Asked, asked_models, choose_for
from volery.settings import Settings
from volery.speech.asr import asked_language
from volery.speech.device import use_threads
from volery.speech.models import Weights
from volery.speech.quiet import hush
from volery.speech.vad import SileroVad, VadEngine
from volery.speech.whisper import WhisperEngine
from volery.speech.windows import SpeechWindow, cut_windows, windows_of
from volery.units import SAMPLE_RATE, ConfigurationError, UnitRejected

if TYPE_CHECKING:
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

    def __init__(self, engine: Engine, vad: VadEngine) -> None:
        self._engine = engine
        self._vad = vad

    def hear(self, samples: Samples, language: str | None) -> Heard:
        """See `Listener.hear`."""
        try:
            code = asked_language(language, self._engine.languages)
        except UnitRejected as error:
            raise RefereeError(RefereeReason.LANGUAGE, f"the referee does not know the language: {error}") from error
        windows = speech_windows(samples, self._vad)
        heard = self._engine.hear(windows, code)
        seconds: Counter[str] = Counter()
        for window, one in zip(windows, heard, strict=True):
            if one.text and one.language is not None:
                seconds[one.language] += len(window)
        spoken = seconds.most_common(1)[0][0] if seconds else code
        return Heard(" ".join(one.text for one in heard if one.text), spoken)


def speech_windows(samples: Samples, vad: VadEngine) -> list[Samples]:
    """All speech of a unit, in order, as few windows of at most `WINDOW_S`; longer pauses are left out.

    Whisper takes as long over a short window as over a long one, so what lies apart shares one.
    """
    found = vad.detect(samples)
    cuts = cut_windows(found.speech, found.activity, len(samples) / SAMPLE_RATE, WINDOW_S)
    packed: list[list[Samples]] = []
    room = 0
    for piece in windows_of(0, samples, cuts, None):
        if len(piece.samples) > room:
            packed.append([])
            room = round(WINDOW_S * SAMPLE_RATE)
        packed[-1].append(piece.samples)
        room -= len(piece.samples)
    return [np.concatenate(pieces) for pieces in packed]


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
    first, second = (one.model(choice.kind).fetch() for one in asked)
    vad, threads = SileroVad(), settings.referee.referee_cpu_threads
    use_threads(threads)

    def loaded(asked: Asked, weights: Weights) -> Listener:
        return WindowedListener(_engine(asked, weights, choice, threads), vad)

    again = None if first.path == second.path else partial(loaded, asked[1], second)
    return Listeners(choice, loaded(asked[0], first), again)


def _engine(asked: Asked, weights: Weights, choice: Choice, threads: int) -> Engine:
    file = TORCH_FILE if choice.kind == "cuda" else CPU_FILE
    if not (weights.path / file).is_file():
        raise ConfigurationError(f"{asked.setting}: {weights.name} holds no {file}, which the {choice.kind} needs")
    weights.checked()
    try:
        if choice.kind == "cpu":
            return CpuWhisper(WhisperEngine(weights.path, weights.info("referee"), threads))
        from volery.referee.torch_whisper import TorchWhisper

        return TorchWhisper(weights.path, choice.device)
    except (RuntimeError, ValueError, OSError) as error:
        raise ConfigurationError(f"{asked.setting}: {weights.name} cannot be loaded: {error}") from error
