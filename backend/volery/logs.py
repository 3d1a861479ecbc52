"""Logging: structured lines on standard error, readable at a terminal and JSON elsewhere.

Transcripts and secrets are never logged; keys, reasons and figures are.
"""

from __future__ import annotations

import logging
import sys

import structlog

from volery.settings import LogSettings

# Without local variables: they hold transcripts, and credentials in the frames of libraries.
_TRACEBACKS = structlog.processors.ExceptionRenderer(structlog.tracebacks.ExceptionDictTransformer(show_locals=False))


def _at_a_terminal() -> structlog.dev.ConsoleRenderer:
    return structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)


def configure_logging(settings: LogSettings) -> None:
    """Send Volery's log lines to standard error as the settings say."""
    console = settings.log_format == "console" or (settings.log_format == "auto" and sys.stderr.isatty())
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *([] if console else [_TRACEBACKS]),
            _at_a_terminal() if console else structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[settings.log_level]),
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),  # standard error as it is when a line is written
    )
