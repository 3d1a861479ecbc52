"""Result documents as the referee reads them: those of other versions too."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict

from volery.referee.cases import Case
from volery.units import Clip, Unit, UnitOptions

_LENIENT = ConfigDict(frozen=True, extra="ignore")
"""Another version may write fields that this one does not know."""


class _Word(BaseModel):
    model_config = _LENIENT

    text: str


class _Clip(BaseModel):
    model_config = _LENIENT

    start_s: float
    end_s: float | None


class _Audio(BaseModel):
    model_config = _LENIENT

    uri: str
    sha256: str
    clip: _Clip | None


class Published(BaseModel):
    """What was published of one unit."""

    model_config = _LENIENT

    key: str
    words: tuple[_Word, ...]
    language: str | None
    audio: _Audio

    @property
    def text(self) -> str:
        """Its words."""
        return " ".join(word.text for word in self.words)


def case_of(path: Path, language: str | None) -> Case:
    """The case of a document on disk, whose unit's language nobody knows but the caller.

    Raises:
        OSError: it cannot be read.
        ValidationError: it is no result of a unit.
    """
    published = Published.model_validate_json(path.read_bytes())
    clip = published.audio.clip
    unit = Unit(
        published.key,
        published.audio.uri,
        clip=Clip(clip.start_s, clip.end_s) if clip else None,
        options=UnitOptions(language=language),
    )
    return Case(unit, path.resolve().as_uri())
