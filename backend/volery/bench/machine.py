"""Which machine, code and packages a benchmark ran on."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path

from volery.bench.receipt import Machine

_PACKAGES = ("torch", "nemo_toolkit", "pyannote.audio", "faster-whisper", "ctranslate2", "numpy", "sqlalchemy", "av")


def this_machine() -> Machine:
    """The machine that this process runs on."""
    return Machine(
        platform=platform.platform(),
        processor=_processor(),
        cpus=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        accelerator=_accelerator(),
        load_at_start=round(os.getloadavg()[0], 2),
    )


def packages() -> dict[str, str]:
    """Versions of Python and of the installed packages that matter to a measurement."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def commit() -> str | None:
    """The commit of the checkout that this code runs from, `-dirty` where files differ; None elsewhere."""
    folder = Path(__file__).parent
    tracked = _git(folder, "ls-files", "--error-unmatch", __file__)  # not an environment inside some other checkout
    found = _git(folder, "rev-parse", "HEAD") if tracked else None
    if found is None:
        return None
    changed = _git(folder, "status", "--porcelain", "--untracked-files=no", "--", str(folder.parent))
    return found + ("-dirty" if changed else "")


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def _accelerator() -> str | None:
    torch = sys.modules.get("torch")
    return torch.cuda.get_device_name(0) if torch is not None and torch.cuda.is_available() else None
