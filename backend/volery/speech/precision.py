"""The numeric precision of the Parakeet model, pinned at startup and asserted like the decoding mode.

Weights are cast; autocast is not used: only the decoder's graph path switches it off, so under
autocast eager and graph decoding may differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch

from volery.units import QuarantineError

QUARANTINE_REASON = "precision"

_CAST_MODULES = ("encoder", "decoder", "joint")
"""What is cast; features are always computed in float32."""


@dataclass(frozen=True, slots=True)
class Precision:
    """A type of weights, and whether float32 products may be computed in TF32."""

    dtype: torch.dtype
    tf32: bool

    def pin(self, model: Any) -> None:
        """Cast the model's weights."""
        for name in _CAST_MODULES:
            getattr(model, name).to(self.dtype)
        self.set_tf32()

    def set_tf32(self) -> None:
        """Set the process's TF32 flags: other libraries (pyannote among them) change them in passing."""
        torch.backends.cuda.matmul.allow_tf32 = self.tf32
        torch.backends.cudnn.allow_tf32 = self.tf32

    def check(self, model: Any) -> None:
        """Raise `QuarantineError` unless the live weights and flags are as they were pinned."""
        if trouble := self._mismatch(model):
            raise QuarantineError(QUARANTINE_REASON, trouble)

    def _mismatch(self, model: Any) -> str | None:
        for name in _CAST_MODULES:
            found = {parameter.dtype for parameter in getattr(model, name).parameters()}
            if found != {self.dtype}:
                return f"{name} weights are {', '.join(sorted(map(str, found)))}, not {self.dtype} alone"
        if torch.is_autocast_enabled("cuda") or torch.is_autocast_enabled("cpu"):
            return "autocast is on"
        flags = (torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32)
        if flags != (self.tf32, self.tf32):
            return f"TF32 was asked to be {self.tf32}, but is {flags[0]} for products and {flags[1]} for convolutions"
        return None


def precision_of(wanted: Literal["float32", "bfloat16"], device: torch.device, *, tf32: bool) -> Precision:
    """The precision for a device: a CPU computes in float32 whatever is asked for."""
    on_accelerator = device.type != "cpu"
    dtype = torch.bfloat16 if wanted == "bfloat16" and on_accelerator else torch.float32
    return Precision(dtype, tf32 and on_accelerator)
