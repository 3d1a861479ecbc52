"""Exit codes, and which error ends a command with which."""

from __future__ import annotations

import os
import sys
from enum import IntEnum
from typing import NoReturn

from volery.units import ConfigurationError, KeyConflictError, QuarantineError, StoreError, VoleryError


class ExitCode(IntEnum):
    """What the exit code of a command says; `meaning` is the sentence of the reference."""

    meaning: str

    def __new__(cls, value: int, meaning: str) -> ExitCode:
        """A code together with its meaning."""
        code = int.__new__(cls, value)
        code._value_ = value
        code.meaning = meaning
        return code

    OK = 0, "The command did what it was asked to; a worker was drained or ran out of work."
    UNITS_FAILED = (
        1,
        "A unit that this run ended is rejected or dead, or a unit that was named is unknown, has no result or "
        "cannot be judged.",
    )
    USAGE = 2, "The command line or a manifest makes no sense, or a key is taken by other audio; nothing was changed."
    CONFIGURATION = 3, "Settings, packages, models or the machine make the work impossible."
    STORE = 4, "The job store or the results cannot be used."
    QUARANTINED = 5, "The worker may no longer be trusted: it gave its leases back and stopped."
    DRAIN_OVERRAN = (
        6,
        "A drain took longer than `BATCH_PIPELINE_DRAIN_SECONDS`, or a second signal came: leases were given back.",
    )
    GATE_FAILED = 7, "`volery gate`, `volery referee --fail-above`: a criterion is not met."
    SWITCH_DIFFERS = (
        8,
        "`volery flags --url`: a switch of the worker is not as asked for, or is missing among those that it reports; "
        "where it reports none, the code is 3.",
    )
    BUG = 70, "Volery failed in a way that it should not have; a traceback is on standard error."
    INTERRUPTED = 130, "The command was interrupted from the keyboard before its work was done."
    PIPE_CLOSED = 141, "The reader of standard output went away, as `head` does."


class UsageError(VoleryError):
    """The command line or its input files make no sense; nothing was changed."""


class OutputError(VoleryError):
    """There is no room for what a command prints or writes."""


class UnknownUnitError(VoleryError):
    """A unit was named that the store does not hold."""


class NoResultError(VoleryError):
    """A result was asked for of a unit that has none."""


_CODES: tuple[tuple[type[VoleryError], ExitCode], ...] = (
    (UsageError, ExitCode.USAGE),
    (KeyConflictError, ExitCode.USAGE),
    (StoreError, ExitCode.STORE),
    (OutputError, ExitCode.CONFIGURATION),
    (ConfigurationError, ExitCode.CONFIGURATION),
    (QuarantineError, ExitCode.QUARANTINED),
)


def exit_code_of(error: VoleryError) -> ExitCode:
    """The exit code of a command that an error ended."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), ExitCode.UNITS_FAILED)


def exit_now(code: ExitCode) -> NoReturn:
    """End the process although threads of it may never return."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
