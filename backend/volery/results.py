"""The result document: what a finished unit's consumers read."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from volery.units import ResultClass, UnitState

SCHEMA_VERSION = 1


class _Document(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class WordRecord(_Document):
    """One word in unit time."""

    text: str
    start_s: float
    end_s: float
    confidence: float = Field(ge=0.0, le=1.0)
    speaker: str | None = Field(description="Null only where diarization found nobody within half a second.")


class TurnRecord(_Document):
    """One speaker's uninterrupted stretch of speech."""

    start_s: float
    end_s: float
    speaker: str


class SegmentRecord(_Document):
    """A stretch in which somebody speaks."""

    start_s: float
    end_s: float


class SpeakerRecord(_Document):
    """A speaker of the unit and how long they speak in all."""

    id: str
    seconds: float


class ClipRecord(_Document):
    """The part of the file that the unit is, in seconds of the file."""

    start_s: float
    end_s: float | None


class AudioRecord(_Document):
    """The audio that the result was made from."""

    uri: str
    sha256: str = Field(description="Digest of the whole fetched file.")
    clip: ClipRecord | None
    container: str
    codec: str
    sample_rate: int
    channels: int
    truncated: bool = Field(description="The container promised more audio than the file held.")


class ModelRecord(_Document):
    """A model that took part."""

    name: str
    source: str
    digest: str = Field(description="SHA-256 of the weights.")


class UnitResult(_Document):
    """The published result of one unit."""

    schema_version: int = SCHEMA_VERSION
    key: str
    owner: str
    stream: str | None
    place: int | None
    privacy_generation: int
    attempt: int = Field(ge=1, description="The attempt that made this result: attempts charged before it, plus one.")
    result_class: ResultClass = Field(alias="class")
    duration_s: float
    language: str | None
    text: str
    words: tuple[WordRecord, ...]
    turns: tuple[TurnRecord, ...]
    speech: tuple[SegmentRecord, ...]
    recovered: bool = Field(
        False,
        exclude_if=lambda recovered: not recovered,  # an older release reads what has no field that it does not know
        description="True where the VAD in use calls the unit silent and `speech` is what the other engine is sure of; "
        "left out elsewhere.",
    )
    speakers: tuple[SpeakerRecord, ...]
    audio: AudioRecord
    models: dict[str, ModelRecord] = Field(
        description="By role: vad, segmentation, embedding, asr; second_vad where it may recover units."
    )
    switches: dict[str, str] = Field(description="Each switch as it was on the live objects: on, off or inapplicable.")
    timings: dict[str, float] = Field(description="Seconds by stage; this unit's share where a stage is batched.")
    volery_version: str

    def to_json(self) -> bytes:
        """The document as UTF-8 JSON, keys as the schema names them."""
        return self.model_dump_json(by_alias=True, indent=1).encode()


class UnitReport(BaseModel):
    """Any unit, finished or not, as `volery results --key` prints it."""

    model_config = ConfigDict(frozen=True)

    key: str
    state: UnitState
    reason: str | None = None
    error: str | None = None
    attempts: int
    owner: str
