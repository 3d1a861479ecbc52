"""The engine in either mode, as a worker loads it, and what its live objects say.

The engine shows its model to nobody, so it is reached for here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from gpu_checks.receipt import Configuration, Live
from volery.speech.asr import Hypothesis
from volery.speech.decoding_mode import DecodingMode, computer_of
from volery.speech.parakeet import BatchShape, ParakeetEngine, ParakeetOptions, load_parakeet
from volery.speech.precision import Precision
from volery.speech.windows import SpeechWindow

EAGER = "eager"
GRAPHS = "graphs"

_PARTS = ("preprocessor", "encoder", "decoder", "joint")


@dataclass(frozen=True, slots=True)
class Plan:
    """What is checked: a model as `load_parakeet` names it, on a device, at a batch shape."""

    model: str
    device: torch.device
    precision: Precision
    shape: BatchShape
    windows: tuple[SpeechWindow, ...]
    repeats: int
    allow_partial: bool = False

    @property
    def accelerated(self) -> bool:
        """Whether there is a device that can run CUDA graphs."""
        return self.device.type == "cuda"

    @property
    def worker_shape(self) -> BatchShape | None:
        """The shape that a worker fills its batches up to: none on a CPU."""
        return self.shape if self.accelerated else None


@dataclass(slots=True, eq=False)
class Opened:
    """An engine, the mode that was asked of it, and its live modes so far."""

    engine: ParakeetEngine
    asked: DecodingMode
    device: torch.device
    live: list[Live] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The mode that was asked for."""
        return GRAPHS if self.asked.graphs else EAGER

    @property
    def model(self) -> Any:
        """The NeMo model that decodes."""
        return self.engine.model

    @property
    def shape(self) -> BatchShape | None:
        """What the engine fills its batches up to."""
        return self.engine.options.shape

    def note(self, moment: str) -> Live:
        """Read the live decoder and keep what it says."""
        live = self.engine.guard.live
        captures = self.engine.guard.captures
        self.live.append(
            Live(
                moment=moment,
                allowed=live.allowed,
                mode=live.mode,
                full_captured=live.full_captured,
                partial_captured=live.partial_captured,
                fallback_allowed=live.fallback_allowed,
                captures=captures,
            )
        )
        return self.live[-1]

    def mismatch(self, *, has_decoded: bool) -> str | None:
        """How the live decoder differs from what was asked for, whatever the engine's guard says of it."""
        return self.asked.mismatch(self.engine.guard.live, has_decoded=has_decoded)

    def hear(self, windows: Sequence[SpeechWindow]) -> list[Hypothesis]:
        """The windows as the engine transcribes them, done when this returns."""
        heard = self.engine.transcribe(windows)
        synchronize(self.device)
        return heard

    def hear_halved(self, windows: Sequence[SpeechWindow]) -> list[Hypothesis]:
        """The windows in batches of half the rows, as after a batch that did not fit in memory."""
        return self.engine._decode(windows, self.shape.halved() if self.shape else None)

    def configuration(self) -> Configuration:
        """What runs, read from the live objects."""
        model, computer = self.model, computer_of(self.model)
        return Configuration(
            asked=self.name,
            switch=self.engine.graphs,
            model_class=type(model).__name__,
            decoder_class=type(computer).__name__,
            parameters=sum(parameter.numel() for parameter in model.parameters()),
            encoder_layers=len(model.encoder.layers),
            encoder_width=model.encoder.d_model,
            vocabulary=len(model.tokenizer.vocab),
            durations=tuple(computer.durations.tolist()),
            max_symbols=computer.max_symbols,
            weights={part: _types(getattr(model, part)) for part in _PARTS},
            device=str(next(model.parameters()).device),
            tf32_products=torch.backends.cuda.matmul.allow_tf32,
            tf32_convolutions=torch.backends.cudnn.allow_tf32,
            autocast=torch.is_autocast_enabled("cuda") or torch.is_autocast_enabled("cpu"),
            batch_windows=self.shape.windows if self.shape else 1,
            batch_seconds=self.shape.seconds if self.shape else None,
            live=tuple(self.live),
        )


def open_engine(plan: Plan, *, graphs: bool, shape: BatchShape | None) -> Opened:
    """Load the model anew in a mode, as a worker does.

    Raises:
        ConfigurationError: the model cannot be loaded.
        QuarantineError: the live decoder is not in that mode.
    """
    asked = DecodingMode(graphs, plan.allow_partial)
    engine = load_parakeet(plan.model, plan.device, ParakeetOptions(asked, plan.precision, shape))
    return Opened(engine, asked, plan.device)


def synchronize(device: torch.device) -> None:
    """Wait until an accelerator has done all its work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def flip_mode(opened: Opened) -> None:
    """Change the live mode to the other one by NeMo's own means.

    What disables graphs is what NeMo does around training; what forces them is its own hook for tests.
    """
    if opened.asked.graphs:
        opened.model.disable_cuda_graphs()
    else:
        computer_of(opened.model).force_cuda_graphs_mode("no_while_loops")


def replace_decoder(opened: Opened) -> None:
    """Put another decoder of the same mode in place, as NeMo's `transcribe(timestamps=True)` does."""
    opened.model.change_decoding_strategy(opened.model.cfg.decoding, verbose=False)


def _types(part: torch.nn.Module) -> tuple[str, ...]:
    found = {str(tensor.dtype) for tensor in (*part.parameters(), *part.buffers()) if tensor.is_floating_point()}
    return tuple(sorted(found))
