"""The formats of exported results, as options name them."""

from __future__ import annotations

import os
from pathlib import Path

from volery.cli.exits import OutputError, UsageError
from volery.cli.output import is_full
from volery.export import Format, export
from volery.results import UnitResult

FORMATS_HELP = f"Formats, comma-separated: {', '.join(Format)}."


def parse_formats(text: str) -> tuple[Format, ...]:
    """Formats of a comma-separated list, each once.

    Raises:
        UsageError: one of them is unknown; names those that are known.
    """
    names = dict.fromkeys(name.strip().lower() for name in text.split(","))
    known = {format.value: format for format in Format}
    if unknown := [name for name in names if name not in known]:
        raise UsageError(f"unknown format {unknown[0]!r}; there are {', '.join(known)}")
    return tuple(known[name] for name in names)


def make_folder(folder: Path) -> None:
    """Make the folder that exports go to.

    Raises:
        UsageError: it cannot be made or written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot write to {folder}: {error.strerror}") from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"cannot write to {folder}: nothing can be created there")


def write_export(result: UnitResult, format: Format, path: Path) -> None:
    """Write a result in a format to a file; errors as for `write_file`."""
    write_file(path, export(result, format))


def write_file(path: Path, text: str) -> None:
    """Write a file as UTF-8, its line ends as they are.

    Raises:
        UsageError: it cannot be written.
        OutputError: there is no room for it; a part that was written is removed.
    """
    try:
        path.write_text(text, encoding="utf-8", newline="")
    except OSError as error:
        said = f"cannot write {path}: {error.strerror}"
        if is_full(error):
            if path.is_file():  # and not a device
                path.unlink()
            raise OutputError(said) from error
        raise UsageError(said) from error
