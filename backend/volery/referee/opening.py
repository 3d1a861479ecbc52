"""The referee's process from settings."""

from __future__ import annotations

from functools import partial
from threading import RLock
from typing import TYPE_CHECKING

from volery.extras import needed_from, require
from volery.referee.models import chosen_models
from volery.referee.process import RefereeProcess
from volery.settings import Settings

if TYPE_CHECKING:
    from volery.referee.judge import Judge


_PACKAGES = ("faster_whisper", "jiwer", "numpy", "silero_vad", "torch", "transformers", "whisper_normalizer")


def check_referee(settings: Settings) -> tuple[str, ...]:
    """The names of the referee's models, where a share of the units is audited; nothing heavy is imported.

    Raises:
        ConfigurationError: it could not work: a package is not installed, a path does not exist, or what
            is pinned cannot apply.
    """
    if not settings.referee.referee_sample_rate:
        return ()
    require(_PACKAGES, "referee")
    return tuple(model.name for _, model in chosen_models(settings))


def open_referee(settings: Settings, *, in_worker: bool) -> RefereeProcess:
    """A referee whose process begins with its first case. In a worker it is on the CPU unless told otherwise."""
    start = partial(load_judge, settings, in_worker=in_worker)
    return RefereeProcess(start, cpu_threads=settings.referee.referee_cpu_threads, logging=settings.log)


def load_judge(settings: Settings, *, in_worker: bool) -> Judge:
    """A judge with its first model loaded: for the referee's process, since everything heavy is imported here.

    Raises:
        ConfigurationError: a package is not installed, or the models cannot be had.
    """
    with needed_from("referee"):
        from tqdm import tqdm  # type: ignore[import-untyped]

        from volery.referee.judge import Judge
        from volery.referee.whisper import load_listeners
    # Its own would be a semaphore of the system, and where this process is killed Python complains that it leaked.
    tqdm.set_lock(RLock())
    listeners = load_listeners(settings, in_worker=in_worker)
    return Judge(settings, listeners.first, listeners.load_second, listeners.choice)
