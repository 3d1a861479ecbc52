"""What a command line names: files, folders, globs, manifests and URIs, as units."""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from volery.cli.exits import UsageError
from volery.cli.manifest import UnitLine, file_uri, in_words, is_uri, read_manifest, same_audio
from volery.units import Unit

_EXTENSIONS = """
3gp aac ac3 aif aifc aiff amr ape au caf flac m4a m4b mka mkv mov mp2 mp3 mp4 mpeg mpg
oga ogg opus ra snd spx tta wav wave webm wma wmv wv
"""
AUDIO_EXTENSIONS = frozenset(f".{extension}" for extension in _EXTENSIONS.split())
"""Files in folders that are taken for audio; a file that is named itself is always taken."""


@dataclass
class Collected:
    """The units that were named, in order, and the files in folders that are hidden or not named like audio."""

    units: list[Unit] = field(default_factory=list)
    skipped: list[Path] = field(default_factory=list)


def collect(paths: Sequence[str], options: dict[str, Any]) -> Collected:
    """The units behind the arguments of a command.

    `options` are fields of a manifest line: they hold for every unit, and in a manifest for
    every line that does not say otherwise. A stream's units are numbered from 0 in this order.

    Raises:
        UsageError: a path does not exist, a manifest or an option makes no sense, units with other audio
            have the same key, or nothing is there.
    """
    found = Collected()
    for path in paths:
        found.units += _units_of(path, options, found.skipped)
    if not found.units:
        raise UsageError(f"no audio in {', '.join(paths)}")
    _require_own_keys(found.units, options)
    found.units = _numbered(found.units, options.get("stream"))
    return found


def _require_own_keys(units: Sequence[Unit], options: dict[str, Any]) -> None:
    """Units of several arguments may not share a key either, unless the command line named it for all."""
    first: dict[str, Unit] = {}
    for unit in units:
        other = first.setdefault(unit.key, unit)
        if "key" not in options and not same_audio(unit, other):
            raise UsageError(
                f"the key {unit.key} is given to {other.audio_uri} and to {unit.audio_uri}: change one of the keys"
            )


def _units_of(path: str, options: dict[str, Any], skipped: list[Path]) -> list[Unit]:
    if path == "-":
        return read_manifest(sys.stdin.buffer, "standard input", Path.cwd(), options)
    if is_uri(path) and not os.path.lexists(path):
        return [_unit(options, path)]
    return [unit for one in _existing(path) for unit in _units_at(one, options, skipped)]


def _existing(path: str) -> list[Path]:
    """The path itself, or what it matches as a glob.

    Raises:
        UsageError: neither is there.
    """
    if os.path.lexists(path):
        return [Path(path)]
    if matches := sorted(glob.glob(path, recursive=True)):
        return [Path(match) for match in matches]
    pattern = glob.escape(path) != path
    raise UsageError(f"nothing matches {path}" if pattern else f"there is no file or folder {path}")


def _units_at(path: Path, options: dict[str, Any], skipped: list[Path]) -> list[Unit]:
    if path.is_dir():
        return [_unit(options, file_uri(file)) for file in _audio_under(path, skipped)]
    if path.suffix.lower() == ".jsonl":
        return _manifest(path, options)
    return [_unit(options, file_uri(path))]


def _manifest(path: Path, options: dict[str, Any]) -> list[Unit]:
    try:
        with path.open("rb") as lines:
            return read_manifest(lines, str(path), path.parent, options)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error


def _audio_under(folder: Path, skipped: list[Path]) -> Iterator[Path]:
    for root, folders, files in os.walk(folder, onerror=_refuse):
        folders[:] = sorted(one for one in folders if not one.startswith("."))
        for file in sorted(files):
            path = Path(root, file)
            if path.suffix.lower() in AUDIO_EXTENSIONS and not file.startswith("."):
                yield path
            else:
                skipped.append(path)


def _refuse(error: OSError) -> None:
    raise UsageError(f"cannot look into {error.filename}: {error.strerror}")


def _unit(options: dict[str, Any], audio_uri: str) -> Unit:
    try:
        return UnitLine.model_validate({**options, "audio_uri": audio_uri}).to_unit(Path.cwd())
    except ValidationError as error:
        raise UsageError(in_words(error)) from error


def _numbered(units: list[Unit], stream: str | None) -> list[Unit]:
    """Units with a place in the stream that the command line named, unless they have one."""
    if stream is None:
        return units
    return [
        replace(unit, place=place) if unit.stream == stream and unit.place is None else unit
        for place, unit in enumerate(units)
    ]
