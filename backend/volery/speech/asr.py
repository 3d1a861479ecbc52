"""What every ASR engine does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from volery.speech.windows import SpeechWindow
from volery.units import ModelInfo, Reason, UnitRejected

SHORTEST_WORD_S = 0.02
"""No word is shorter, in seconds: aligners put starts and ends of quick words on the same frame."""

SwitchState = Literal["on", "off", "inapplicable"]


@dataclass(frozen=True, slots=True)
class HypothesisWord:
    """One word; times are seconds from the start of its window, confidence is from 0 to 1."""

    text: str
    start_s: float
    end_s: float
    confidence: float


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """What an engine heard in one window; `language` is a code such as `en` where it is known."""

    words: tuple[HypothesisWord, ...]
    language: str | None = None


class AsrEngine(Protocol):
    """Transcribes speech windows. A window's hypothesis does not depend on its neighbours."""

    @property
    def info(self) -> ModelInfo:
        """The model, role `asr`."""
        ...

    @property
    def languages(self) -> frozenset[str] | None:
        """The languages that can be asked for; none where the model does not take a language."""
        ...

    @property
    def graphs(self) -> SwitchState:
        """Whether the live decoder runs CUDA graphs."""
        ...

    def transcribe(self, windows: Sequence[SpeechWindow]) -> list[Hypothesis]:
        """A hypothesis a window, in order.

        Raises:
            QuarantineError: the live decoder is not in the mode that was asked for.
        """
        ...

    def warm_up(self) -> None:
        """Do at the largest shapes what the first windows would otherwise wait for."""
        ...


def asked_language(language: str | None, known: frozenset[str] | None) -> str | None:
    """The code that a unit asks for, as engines take it: `en` for `en-GB`.

    Raises:
        UnitRejected: the model cannot transcribe that language.
    """
    if language is None or known is None:
        return None
    code = language.strip().lower().replace("_", "-").split("-")[0]
    if code not in known:
        shown = ", ".join(sorted(known)) if len(known) <= 5 else f"one of {len(known)} others"
        raise UnitRejected(
            Reason.LANGUAGE_UNSUPPORTED,
            f"the ASR model cannot transcribe the language {language!r}, only {shown}: "
            "submit the unit with another language or none, or choose a model that can",
        )
    return code


def tidy(words: Sequence[HypothesisWord], duration_s: float) -> tuple[HypothesisWord, ...]:
    """Words inside their window, in order, with confidences from 0 to 1.

    Each starts no earlier than the last one ended and lasts at least `SHORTEST_WORD_S`, save where
    too many crowd at the window's end: there they share its last moment.
    """
    tidied: list[HypothesisWord] = []
    free_s, latest_s = 0.0, max(duration_s - SHORTEST_WORD_S, 0.0)
    for word in words:
        start_s = min(max(word.start_s, free_s), latest_s)
        free_s = min(max(word.end_s, start_s + SHORTEST_WORD_S), duration_s)
        confidence = round(min(max(word.confidence, 0.0), 1.0), 4)
        tidied.append(HypothesisWord(word.text, start_s, free_s, confidence))
    return tuple(tidied)
