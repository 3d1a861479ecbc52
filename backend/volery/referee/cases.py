"""What passes between the referee's parts, and between its process and the worker's: small, and without any text heard.

Imports nothing that a worker does not have anyway.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from volery.units import Unit, VoleryError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Case:
    """A unit whose published words are to be judged; `artifact` is what its result is stored as."""

    unit: Unit
    artifact: str

    @property
    def key(self) -> str:
        """The unit's key."""
        return self.unit.key


@dataclass(frozen=True, slots=True)
class Heard:
    """What a model of the referee heard in one unit; `language` is a code such as `en` where it is known.

    It does not leave the referee's process.
    """

    text: str
    language: str | None = None


class Listener(Protocol):
    """A model of the referee."""

    def hear(self, samples: npt.NDArray[np.float32], language: str | None) -> Heard:
        """What is said in mono audio at 16 kHz of any length; nothing where nobody speaks.

        Raises:
            RefereeError: the model does not know the language.
        """
        ...


@dataclass(frozen=True, slots=True)
class Judgement:
    """How far a unit's published words are from the referee's.

    `disagreement` is the word error rate that counts, at most 1, after normalisation and, where it
    was `escalated`, after both models; `first` is the small model's. `edits` is how many it takes
    from what the referee heard, `words` words, to what was published: there may be more of them
    than words. `device` is what it ran on, `seconds` how long it took.
    """

    key: str
    disagreement: float
    first: float
    escalated: bool
    edits: int
    words: int
    language: str | None
    device: str
    seconds: float


class RefereeReason(StrEnum):
    """Why a case has no judgement."""

    AUDIO = "audio"
    RESULT = "result"
    LANGUAGE = "language"
    DEADLINE = "deadline"
    DIED = "died"
    NOT_STARTED = "not_started"
    UNEXPECTED = "unexpected"
    CLOSED = "closed"


class RefereeError(VoleryError):
    """A case cannot be judged. `message` is for a person and holds nothing heard, `reason` is for machines."""

    def __init__(self, reason: RefereeReason, message: str) -> None:
        self.reason = reason
        self.message = message
        super().__init__(f"{reason}: {message}")
