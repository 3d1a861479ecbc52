"""What an exception of a model means for the unit it worked on, and for this process."""

from __future__ import annotations

import traceback

import torch

from volery.units import QuarantineError, Reason, UnitError, UnitFailed

ACCELERATOR_ERROR = "accelerator_error"


def as_unit_error(stage: str, error: Exception) -> UnitError:
    """The error of one unit that a stage failed on.

    An exception's own text is left out: it may hold what was said.

    Raises:
        QuarantineError: the accelerator's context is broken, so that every later call fails too.
    """
    if isinstance(error, UnitError):
        return error
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        _release()
        return UnitFailed(
            Reason.SPEECH_OUT_OF_MEMORY,
            f"{stage} ran out of memory: lower BATCH_PIPELINE_SPEECH_BATCH_WINDOWS or "
            "BATCH_PIPELINE_ASR_BATCH_WINDOWS, or give the worker more",
        )
    if isinstance(error, torch.AcceleratorError):
        raise QuarantineError(ACCELERATOR_ERROR, f"the accelerator failed during {stage}: {error}") from error
    return UnitFailed(Reason.SPEECH_FAILED, f"{stage} failed: {described(error)}")


def described(error: BaseException) -> str:
    """An exception's type and where it came from, without its text."""
    frames = traceback.extract_tb(error.__traceback__)[-3:]
    return " ".join([type(error).__name__, *(f"{frame.name}:{frame.lineno}" for frame in frames)])


def _release() -> None:
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
