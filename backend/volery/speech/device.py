"""Which device the models run on, and with how many threads."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import torch

from volery.units import ConfigurationError

_CPU_MAX = Path("/sys/fs/cgroup/cpu.max")


def choose_device(wanted: Literal["auto", "cuda", "cpu"]) -> torch.device:
    """The one device of this process.

    Raises:
        ConfigurationError: `cuda` is asked for and there is none, or more than one is visible.
    """
    if wanted == "cpu":
        return torch.device("cpu")
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if count > 1:
        raise ConfigurationError(
            f"{count} accelerators are visible and a worker owns exactly one: "
            "set CUDA_VISIBLE_DEVICES to the one to use, or BATCH_PIPELINE_DEVICE=cpu"
        )
    if count == 0 and wanted == "cuda":
        raise ConfigurationError(
            "BATCH_PIPELINE_DEVICE=cuda, but torch sees no accelerator: install a driver, "
            "check CUDA_VISIBLE_DEVICES, or use BATCH_PIPELINE_DEVICE=cpu"
        )
    return torch.device("cuda", 0) if count else torch.device("cpu")


def use_threads(count: int) -> None:
    """Let torch use `count` CPU threads; 0 leaves as many as the process may use.

    Called after every library is imported: importing silero_vad sets one thread for the process.
    """
    torch.set_num_threads(count or available_cpus())


@contextmanager
def one_thread() -> Iterator[None]:
    """Let operators of this thread, and of threads that begin meanwhile, run on one CPU thread each.

    Threads that share the small operators of short audio spend longer waiting for each other than working.
    """
    count = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(count)


def available_cpus() -> int:
    """CPUs that this process may use: those it may run on, or its container's share of them."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(allowed, _container_share(_CPU_MAX) or allowed))


def _container_share(cpu_max: Path) -> int | None:
    """Whole CPUs of a cgroup's quota (`quota period`, or `max period` for none); none where it is not set."""
    try:
        quota, period = cpu_max.read_text().split()
    except (OSError, ValueError):
        return None
    return None if quota == "max" else math.ceil(int(quota) / int(period))
