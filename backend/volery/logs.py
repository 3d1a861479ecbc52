"""Logging: structured lines on standard error, readable at a terminal and JSON elsewhere.

Transcripts and secrets are never logged; keys, reasons and figures are.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog

from volery.settings import LogSettings
from volery.terminal import plain

# Without local variables: they hold transcripts, and credentials in the frames of libraries.
_TRACEBACKS = structlog.processors.ExceptionRenderer(structlog.tracebacks.ExceptionDictTransformer(show_locals=False))


def _at_a_terminal() -> structlog.dev.ConsoleRenderer:
    return structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)


def _plain_values(_: object, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A unit's key, or an error that names it, may hold a terminal's commands; JSON escapes them."""
    return {name: plain(value) if isinstance(value, str) else value for name, value in event.items()}


def configure_logging(settings: LogSettings) -> None:
    """Send Volery's log lines to standard error as the settings say."""
    console = settings.log_format == "console" or (settings.log_format == "auto" and sys.stderr.isatty())
    shown: list[structlog.typing.Processor] = [_TRACEBACKS, structlog.processors.JSONRenderer()]
    if console:
        shown = [_plain_values, _at_a_terminal()]
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *shown,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[settings.log_level]),
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),  # standard error as it is when a line is written
    )
