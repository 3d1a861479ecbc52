"""What commands print: data on standard output, everything else on standard error."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from rich.console import Console
from rich.text import Text


def messages() -> Console:
    """A console on standard error, as it is now."""
    return Console(stderr=True, highlight=False, soft_wrap=True)


def tables() -> Console:
    """A console on standard output, as it is now."""
    return Console(highlight=False)


def say(message: str, style: str = "") -> None:
    """A line for a person, on standard error."""
    messages().print(Text(message, style))


def say_error(message: str) -> None:
    """An error in one red line."""
    say("volery: " + " ".join(message.split()), "red")


def write(text: str) -> None:
    """Data on standard output, as it is."""
    sys.stdout.write(text)


def write_json(document: Any, *, indent: int | None = None) -> None:
    """One JSON document and a newline, on standard output."""
    write(json.dumps(document, ensure_ascii=False, indent=indent) + "\n")


def drop_output() -> None:
    """Send what is still buffered nowhere: the reader of standard output has gone."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
