"""Logging: structured lines on standard error, readable at a terminal and JSON elsewhere.

Transcripts and secrets are never logged; keys, reasons and figures are.
"""

from __future__ import annotations

import logging
import sys

import structlog

from volery.settings import LogSettings


def configure_logging(settings: LogSettings) -> None:
    """Send Volery's log lines to standard error as the settings say."""
    console = settings.log_format == "console" or (settings.log_format == "auto" and sys.stderr.isatty())
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *([] if console else [structlog.processors.dict_tracebacks]),
            structlog.dev.ConsoleRenderer() if console else structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[settings.log_level]),
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),  # standard error as it is when a line is written
    )
