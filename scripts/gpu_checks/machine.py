"""What the check ran on: device, driver, versions, commit."""

from __future__ import annotations

import platform
import subprocess
from importlib import metadata
from pathlib import Path

import torch

from gpu_checks.receipt import Code, Machine, Versions

ROOT = Path(__file__).resolve().parents[2]
_CODE = ("backend", "scripts", "pyproject.toml")


def machine(device: torch.device) -> Machine:
    """The device that decodes."""
    if device.type == "cpu":
        return Machine(
            device="cpu",
            name=platform.processor() or platform.machine(),
            compute_capability=None,
            memory_bytes=None,
            driver=None,
        )
    properties = torch.cuda.get_device_properties(device)
    return Machine(
        device=str(device),
        name=properties.name,
        compute_capability=f"{properties.major}.{properties.minor}",
        memory_bytes=properties.total_memory,
        driver=(_output("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader") or "").split("\n")[0]
        or None,
    )


def versions() -> Versions:
    """What is installed."""
    return Versions(
        volery=_version("volery"),
        python=platform.python_version(),
        torch=_version("torch"),
        cuda=torch.version.cuda,
        cudnn=torch.backends.cudnn.version(),  # type: ignore[no-untyped-call]
        cuda_bindings=_version("cuda-bindings"),
        nemo=_version("nemo_toolkit"),
        numpy=_version("numpy"),
    )


def code() -> Code:
    """The commit that ran, and whether what runs differs from it."""
    commit = _output("git", "-C", str(ROOT), "rev-parse", "HEAD")
    changes = _output("git", "-C", str(ROOT), "status", "--porcelain", "--", *_CODE)
    return Code(commit=commit, dirty=None if changes is None else bool(changes))


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _output(*command: str) -> str | None:
    """What a command prints, or None where it is absent or fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
