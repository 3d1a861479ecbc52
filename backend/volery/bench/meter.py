"""What the process itself measures: seconds by stage, graphs captured, memory."""

from __future__ import annotations

import contextlib
import resource
import sys
from pathlib import Path
from typing import Any, get_args

from prometheus_client import REGISTRY

from volery.metrics import Stage

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")
_RESET_PEAK = "5"


class Meter:
    """Measures from when it is made to when it is asked."""

    def __init__(self) -> None:
        _reset_peak_rss()
        if cuda := _cuda():
            cuda.reset_peak_memory_stats()
        self._stages = _stage_seconds()
        self._captures = _captures()

    def stage_seconds(self) -> dict[str, float]:
        """Seconds by stage, as the worker's own metric counts them."""
        return {stage: seconds - self._stages[stage] for stage, seconds in _stage_seconds().items()}

    def graph_captures(self) -> int:
        """CUDA graphs captured: none should be, once an arm is warm."""
        return round(_captures() - self._captures)

    def cuda_peak_bytes(self) -> int | None:
        """The most memory that tensors had on the accelerator; None where there is none."""
        cuda = _cuda()
        return cuda.max_memory_allocated() if cuda else None


def peak_rss_bytes() -> int:
    """The most memory that the process had since a meter was made; where the kernel cannot forget, ever."""
    with contextlib.suppress(OSError, IndexError):
        peak = _STATUS.read_text().partition("VmHWM:")[2].split()[0]
        return int(peak) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _reset_peak_rss() -> None:
    with contextlib.suppress(OSError):
        _CLEAR.write_text(_RESET_PEAK)


def _stage_seconds() -> dict[str, float]:
    return {stage: _value("batch_pipeline_stage_seconds_sum", stage=stage) for stage in get_args(Stage)}


def _captures() -> float:
    return _value("batch_pipeline_graph_captures_total")


def _value(series: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(series, labels) or 0.0


def _cuda() -> Any:
    """torch's CUDA, where something has loaded torch and there is an accelerator."""
    torch = sys.modules.get("torch")
    return torch.cuda if torch is not None and torch.cuda.is_available() else None
