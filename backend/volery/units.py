"""The nouns of Volery: what passes between its rooms.

Times inside audio are seconds from the start of the unit (of its clip, where it has one).
Times of the store are seconds since the epoch by the database's clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

SAMPLE_RATE = 16_000
"""Samples a second of all decoded audio."""


class UnitState(StrEnum):
    """Where a unit stands in the store. The last four are final."""

    READY = "ready"
    LEASED = "leased"
    DONE = "done"
    REJECTED = "rejected"
    DEAD = "dead"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        """True where only an explicit requeue brings the unit back."""
        return self not in (UnitState.READY, UnitState.LEASED)


class ResultClass(StrEnum):
    """What a finished unit turned out to hold."""

    SPEECH = "speech"
    NO_WORDS = "no_words"
    NO_SPEECH = "no_speech"


class Reason(StrEnum):
    """Why a unit did not end `done`, or why an attempt at it failed."""

    AUDIO_EMPTY = "audio_empty"
    AUDIO_UNDECODABLE = "audio_undecodable"
    AUDIO_NO_STREAM = "audio_no_stream"
    AUDIO_TOO_LONG = "audio_too_long"
    AUDIO_TOO_LARGE = "audio_too_large"
    AUDIO_MISSING = "audio_missing"
    AUDIO_NOT_A_FILE = "audio_not_a_file"
    AUDIO_FORBIDDEN = "audio_forbidden"
    AUDIO_BAD_URI = "audio_bad_uri"
    AUDIO_BAD_CLIP = "audio_bad_clip"
    AUDIO_CHANGED = "audio_changed"
    AUDIO_UNAVAILABLE = "audio_unavailable"
    LANGUAGE_UNSUPPORTED = "language_unsupported"
    SPEECH_FAILED = "speech_failed"
    SPEECH_OUT_OF_MEMORY = "speech_out_of_memory"
    PUBLISH_FAILED = "publish_failed"
    LEASE_EXPIRED = "lease_expired"
    QUARANTINED_TWICE = "quarantined_twice"


class RefundReason(StrEnum):
    """Why a lease was given back without charging an attempt."""

    DRAIN = "drain"
    QUARANTINE = "quarantine"
    LATE_GRANT = "late_grant"
    ARTIFACTS = "artifacts"


@dataclass(frozen=True, slots=True)
class Clip:
    """A part of an audio file, in seconds from the file's start; no end means to the end."""

    start_s: float = 0.0
    end_s: float | None = None


@dataclass(frozen=True, slots=True)
class UnitOptions:
    """What the submitter knows about the audio: nothing here is required."""

    num_speakers: int | None = None
    language: str | None = None


@dataclass(frozen=True, slots=True)
class Unit:
    """One piece of audio to transcribe, as it is submitted and as a lane sees it.

    `stream` and `place` put units of one recording in order; `privacy_generation` is the
    submitter's counter that a later erasure refers to. Both are carried, never interpreted.
    """

    key: str
    audio_uri: str
    owner: str = "default"
    priority: int = 0
    clip: Clip | None = None
    options: UnitOptions = field(default_factory=UnitOptions)
    stream: str | None = None
    place: int | None = None
    privacy_generation: int = 0


@dataclass(frozen=True, slots=True)
class Lease:
    """The exclusive, expiring right to work on a unit.

    `attempts` is how many attempts have been charged to the unit so far. `alone` is true for
    a suspect that was granted to a process that holds no other lease.
    """

    token: str
    unit: Unit
    expires_at: float
    attempts: int = 0
    alone: bool = False


@dataclass(frozen=True, slots=True)
class AudioInfo:
    """Where decoded audio came from and what it was before decoding.

    `sha256` digests the fetched file as a whole; `duration_s` is the decoded length of the
    unit; `truncated` says that the container promised more than the file held.
    """

    uri: str
    sha256: str
    container: str
    codec: str
    sample_rate: int
    channels: int
    duration_s: float
    truncated: bool = False
    clip: Clip | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Audio:
    """One unit's decoded audio: `samples` is mono float32 of shape `(samples,)` at 16 kHz."""

    samples: npt.NDArray[np.float32]
    info: AudioInfo

    @property
    def duration_s(self) -> float:
        """Length in seconds."""
        return len(self.samples) / SAMPLE_RATE


@dataclass(frozen=True, slots=True, eq=False)
class PreparedUnit:
    """A unit together with its decoded audio: what the GPU section works on."""

    unit: Unit
    audio: Audio


@dataclass(frozen=True, slots=True)
class Word:
    """One word in unit time; `speaker` is null only where nobody was found within 0.5 s."""

    text: str
    start_s: float
    end_s: float
    confidence: float
    speaker: str | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """One speaker's uninterrupted stretch of speech."""

    start_s: float
    end_s: float
    speaker: str


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch in which somebody speaks, whoever it is."""

    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A model that took part in a result; `digest` is the SHA-256 of its weights."""

    role: str
    name: str
    source: str
    digest: str


@dataclass(frozen=True, slots=True)
class Transcript:
    """What the models found in one unit: the outcome of the GPU section, not yet published.

    `timings` holds this unit's share of each stage, in seconds. `recovered` says that the VAD in
    use calls the unit silent, and that `speech` is what the other engine is sure of.
    """

    result_class: ResultClass
    words: tuple[Word, ...] = ()
    turns: tuple[Turn, ...] = ()
    speech: tuple[Segment, ...] = ()
    language: str | None = None
    models: tuple[ModelInfo, ...] = ()
    switches: tuple[tuple[str, str], ...] = ()
    timings: tuple[tuple[str, float], ...] = ()
    recovered: bool = False


class VoleryError(Exception):
    """Base of every error that crosses a wall."""


class ConfigurationError(VoleryError):
    """Settings, models or the machine make the work impossible; the message says what to do."""


class StoreError(VoleryError):
    """The job store cannot be used; the message says what to do and holds no password."""


class NoStoreError(StoreError):
    """There is no file where the settings name a SQLite store."""

    def __init__(self, path: Path, message: str) -> None:
        self.path = path
        super().__init__(message)


class KeyConflictError(StoreError):
    """A key was submitted again with other audio."""

    def __init__(self, keys: Sequence[str]) -> None:
        self.keys = tuple(keys)
        shown = ", ".join(self.keys[:5]) + (" …" if len(self.keys) > 5 else "")
        super().__init__(
            f"already submitted with other audio: {shown}; choose another key, or replace the unit with --replace"
        )


class UnitError(VoleryError):
    """Something is wrong with one unit. `message` is for a person, `reason` for machines."""

    def __init__(self, reason: Reason, message: str) -> None:
        self.reason = reason
        self.message = message
        super().__init__(f"{reason}: {message}")


class UnitRejected(UnitError):
    """The unit's audio can never work: no later attempt would end otherwise."""


class UnitFailed(UnitError):
    """This attempt at the unit failed; another may succeed."""


class ArtifactsUnavailable(UnitFailed):
    """Audio cannot be read, or a result written, for reasons that are not the unit's: it must not be charged."""


class QuarantineError(VoleryError):
    """This process may no longer be trusted: it must stop, refund and exit."""

    def __init__(self, reason: str, message: str) -> None:
        self.reason = reason
        self.message = message
        super().__init__(f"{reason}: {message}")
