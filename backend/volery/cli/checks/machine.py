"""The machine: Python, processors, memory, and the accelerator against what torch was built for."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from volery.cli.checks.check import Check, Verdict

_PATIENCE_SECONDS = 15.0
_LEAST_GIB = 4.0
_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")
_DRIVER_VERSION = Path("/proc/driver/nvidia/version")
_LEAST_DRIVER = {13: 580, 12: 525, 11: 450}
"""Oldest Linux driver series for a major CUDA release: NVIDIA's table of CUDA minor version compatibility."""


@dataclass(frozen=True)
class TorchBuild:
    """The installed torch: its version, the CUDA it was built for, and the devices it sees."""

    version: str
    cuda: str | None
    devices: int


@dataclass(frozen=True)
class Driver:
    """The NVIDIA driver and the devices that it lists."""

    version: str
    devices: tuple[str, ...] = ()


def check_python() -> Check:
    """Python and platform."""
    return Check("Python", Verdict.OK, f"{platform.python_version()} on {platform.platform()}")


def check_resources() -> Check:
    """Processors and memory that this process may use."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    gib = _memory_bytes() / 2**30
    found = f"{cores} processors, {gib:.1f} GiB of memory"
    if gib < _LEAST_GIB:
        return Check("Resources", Verdict.WARNING, found, f"give a worker at least {_LEAST_GIB:g} GiB")
    return Check("Resources", Verdict.OK, found)


def _memory_bytes() -> int:
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        return min(physical, int(_CGROUP_LIMIT.read_text()))
    except (OSError, ValueError):  # no control group, or one without a limit
        return physical


def check_accelerator(wanted: str) -> Check:
    """The accelerator, for the device that the settings want."""
    return judge_accelerator(wanted, find_driver(), find_torch())


def judge_accelerator(wanted: str, driver: Driver | None, torch: TorchBuild | None) -> Check:
    """Whether models can run on `wanted` (auto, cuda or cpu) with this driver and this torch."""
    found = "; ".join(_found(driver, torch))
    if wanted == "cpu":
        return Check("Accelerator", Verdict.OK, "not used: BATCH_PIPELINE_DEVICE=cpu")
    if torch is None:
        return Check("Accelerator", Verdict.WARNING, found, "a worker needs torch: pip install 'volery[worker]'")
    if advice := _obstacle(wanted, driver, torch):
        return Check("Accelerator", Verdict.FAILED, found, advice)
    return Check("Accelerator", Verdict.OK, found if torch.devices else f"{found}: models run on the CPU")


def _found(driver: Driver | None, torch: TorchBuild | None) -> list[str]:
    devices = ", ".join(driver.devices) or "no device listed" if driver else ""
    return [
        f"{devices}, driver {driver.version}" if driver else "no NVIDIA driver",
        f"torch {torch.version} for {f'CUDA {torch.cuda}' if torch.cuda else 'CPUs'}" if torch else "no torch",
    ]


def _obstacle(wanted: str, driver: Driver | None, torch: TorchBuild) -> str | None:
    """What to do where the models cannot run as wanted."""
    if torch.devices > 1:
        return "a worker owns exactly one: set CUDA_VISIBLE_DEVICES to the one to use"
    if torch.devices == 1:
        return None
    if driver is not None:
        return _why_unusable(driver, torch)
    if wanted == "cuda":
        return "BATCH_PIPELINE_DEVICE=cuda needs one: install a driver, or use auto or cpu"
    return None


def _why_unusable(driver: Driver, torch: TorchBuild) -> str:
    """What to do where there is a driver, but torch sees no device."""
    if torch.cuda is None:
        return "this torch is built for CPUs: install a CUDA build, or set BATCH_PIPELINE_DEVICE=cpu"
    least = _LEAST_DRIVER.get(int(torch.cuda.partition(".")[0]))
    if least is not None and int(driver.version.partition(".")[0]) < least:
        return f"CUDA {torch.cuda} needs driver {least} or newer: update it, or install a torch for an older CUDA"
    return "torch sees no device: check CUDA_VISIBLE_DEVICES and that the container was given the device"


def find_driver() -> Driver | None:
    """The NVIDIA driver, asked of nvidia-smi or else of the kernel; None where there is none."""
    command = ["nvidia-smi", "--query-gpu=driver_version,name,memory.total", "--format=csv,noheader"]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_SECONDS, check=True)
        rows = [[cell.strip() for cell in line.split(",")] for line in ran.stdout.splitlines() if line.strip()]
        return Driver(rows[0][0], tuple(" ".join(row[1:]) for row in rows))
    except (OSError, subprocess.SubprocessError, IndexError):
        return _kernel_driver()


def _kernel_driver() -> Driver | None:
    try:
        version = re.search(r"\b\d{3}\.\d+(?:\.\d+)?\b", _DRIVER_VERSION.read_text())
    except OSError:
        return None
    return Driver(version[0]) if version else None


def find_torch() -> TorchBuild | None:
    """The installed torch; None where there is none."""
    try:
        import torch
    except ImportError:
        return None
    devices = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return TorchBuild(torch.__version__, torch.version.cuda, devices)
