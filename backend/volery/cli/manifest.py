"""Manifests: JSON Lines files whose lines are units."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Self
from urllib.parse import unquote

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator
from pydantic_core import from_json

from volery.cli.exits import UsageError
from volery.units import Clip, Unit, UnitOptions

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_PRINTABLE = r"^[^\x00-\x1f\x7f]+$"
_BIGGEST = 2**63 - 1
_LONGEST_NAME = 255

Name = Annotated[str, StringConstraints(min_length=1, max_length=512, pattern=_PRINTABLE)]
Place = Annotated[str, StringConstraints(min_length=1, max_length=16384, pattern=r"^[^\x00]+$")]


class ClipLine(BaseModel):
    """The part of the file that the unit is, in seconds of the file; no end means to the end."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    start_s: float = Field(0.0, ge=0)
    end_s: float | None = None

    @model_validator(mode="after")
    def _ends_after_it_starts(self) -> Self:
        if self.end_s is not None and self.end_s <= self.start_s:
            raise ValueError(f"the clip ends at {self.end_s:g} s, not after its start at {self.start_s:g} s")
        return self


class UnitLine(BaseModel):
    """One unit: a line of a manifest. The audio is either `audio_uri` or `path`."""

    model_config = ConfigDict(extra="forbid", title="Manifest line")

    key: Name | None = Field(None, description="Name of the unit; unset: made from the file's name and the audio URI.")
    audio_uri: Place | None = Field(
        None, description="Where a worker finds the audio; taken as it is, whether it exists or not."
    )
    path: Place | None = Field(
        None, description="Path of the audio, relative to the manifest; it must exist when it is submitted."
    )
    owner: Name = Field("default", description="Owners take turns in the queue.")
    priority: int = Field(0, ge=-(2**31), lt=2**31, description="Higher goes first.")
    clip: ClipLine | None = Field(None, description="The part of the file to transcribe.")
    num_speakers: int | None = Field(None, ge=1, le=100, description="How many people speak, where that is known.")
    language: Name | None = Field(None, description="Language spoken, as a code such as `en`, where that is known.")
    stream: Name | None = Field(None, description="The recording that the unit is a part of.")
    place: int | None = Field(None, ge=0, le=_BIGGEST, description="The unit's place in its stream.")
    privacy_generation: int = Field(0, ge=0, le=_BIGGEST, description="Counter that a later erasure refers to.")

    @model_validator(mode="after")
    def _names_audio_once(self) -> Self:
        if (self.audio_uri is None) == (self.path is None):
            raise ValueError("name the audio with either audio_uri or path")
        return self

    def to_unit(self, folder: Path) -> Unit:
        """The unit, its audio's paths taken from `folder`.

        Raises:
            ValueError: `path` names nothing.
        """
        uri = self._uri(folder)
        clip = Clip(self.clip.start_s, self.clip.end_s) if self.clip else None
        return Unit(
            key=self.key or default_key(uri, clip),
            audio_uri=uri,
            owner=self.owner,
            priority=self.priority,
            clip=clip,
            options=UnitOptions(self.num_speakers, self.language),
            stream=self.stream,
            place=self.place,
            privacy_generation=self.privacy_generation,
        )

    def _uri(self, folder: Path) -> str:
        if self.audio_uri is not None:
            return self.audio_uri if is_uri(self.audio_uri) else file_uri(folder / self.audio_uri)
        path = folder / str(self.path)
        if not path.exists():
            raise ValueError(f"there is no file {path}")
        return file_uri(path)


def is_uri(text: str) -> bool:
    """Whether this is a URI, not a path."""
    return _URI.match(text) is not None


def file_uri(path: Path) -> str:
    """The absolute `file://` URI of a path; symbolic links are left alone."""
    return Path(os.path.abspath(path)).as_uri()


def default_key(uri: str, clip: Clip | None) -> str:
    """The key of a unit that was given none: file name, `-`, eight hex digits of the URI's (and clip's) SHA-256."""
    part = f"#{clip.start_s!r}-{clip.end_s!r}" if clip else ""
    name = unquote(uri.rstrip("/").rpartition("/")[2], errors="replace")
    shown = "".join(letter if letter.isprintable() else "_" for letter in name)
    return f"{shown[:_LONGEST_NAME]}-{hashlib.sha256((uri + part).encode()).hexdigest()[:8]}"


def read_manifest(lines: Iterable[bytes], name: str, folder: Path, defaults: dict[str, Any]) -> list[Unit]:
    """The units of a manifest; `defaults` are fields of lines that do not say, or say null.

    Raises:
        UsageError: lines make no sense; names the file and the first such line.
    """
    units: list[Unit] = []
    problems: list[str] = []
    known: dict[str, tuple[int, Unit]] = {}
    for number, line in _numbered(lines):
        try:
            unit = _parse(line, defaults).to_unit(folder)
            _require_own_key(unit, *known.setdefault(unit.key, (number, unit)))
            units.append(unit)
        except ValidationError as error:
            problems.append(f"{name} line {number}: {in_words(error)}")
        except UnicodeError:
            problems.append(f"{name} line {number}: it is not UTF-8")
        except ValueError as error:
            problems.append(f"{name} line {number}: {error}")
    if problems:
        more = f" (and {len(problems) - 1} more such lines)" if len(problems) > 1 else ""
        raise UsageError(problems[0] + more)
    return units


def _require_own_key(unit: Unit, line: int, other: Unit) -> None:
    if not same_audio(unit, other):
        raise ValueError(f"its key {unit.key} is that of line {line}, whose audio is another: change one of the keys")


def same_audio(one: Unit, other: Unit) -> bool:
    """Whether two units are the same part of the same file: only then may they have the same key."""
    return (one.audio_uri, one.clip or Clip()) == (other.audio_uri, other.clip or Clip())


def in_words(error: ValidationError) -> str:
    """What pydantic found, in one line."""
    return "; ".join(_problem(".".join(map(str, one["loc"])), one["msg"]) for one in error.errors())


def _problem(place: str, message: str) -> str:
    return (f"{place}: " if place else "") + message.removeprefix("Value error, ")


def _parse(line: bytes, defaults: dict[str, Any]) -> UnitLine:
    said = from_json(line.decode(), allow_inf_nan=False)
    if not isinstance(said, dict):
        raise ValueError("it is no JSON object")
    return UnitLine.model_validate({**defaults, **{name: value for name, value in said.items() if value is not None}})


def _numbered(lines: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """The lines that hold something, numbered from 1, without the mark that some editors put first."""
    for number, line in enumerate(lines, 1):
        if said := line.removeprefix(b"\xef\xbb\xbf").strip():
            yield number, said
