"""What commands print: data on standard output, everything else on standard error."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Iterator
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from volery.terminal import plain


class PlainConsole(Console):
    """A console that no text can steer: keys and words of others' documents may hold a terminal's commands."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """See `Console.render`; text is made `plain`."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else plain(text), style, control)


def messages() -> Console:
    """A console on standard error, as it is now."""
    return PlainConsole(stderr=True, highlight=False, soft_wrap=True)


def tables() -> Console:
    """A console on standard output, as it is now."""
    return PlainConsole(highlight=False)


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


def is_full(error: OSError) -> bool:
    """Whether something could not be written for want of room."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def drop_output() -> None:
    """Send what is still buffered nowhere: nobody can read it any more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
