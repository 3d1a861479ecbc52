"""The training loop: steps, averaged weights, checkpoints that can be taken up again."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from nemo.collections.asr.models import EncDecRNNTBPEModel
from torch import Tensor

from pocket_parakeet.batches import Batch
from pocket_parakeet.loss import TdtLoss
from pocket_parakeet.network import DURATIONS, SIGMA

_PEAK_RATE = 2e-3
_LAST_RATE = 2e-5
_WARM_UP_STEPS = 150
_REPORT_STEPS = 50


@dataclass(slots=True)
class Trainer:
    """Trains a model in place. `step` counts what is done, `best` is how wrong the best checkpoint was."""

    model: EncDecRNNTBPEModel
    steps: int
    step: int = 0
    best: float = math.inf
    averages: dict[str, Tensor] = field(init=False)
    optimizer: torch.optim.Optimizer = field(init=False)
    _loss: TdtLoss = field(init=False)

    def __post_init__(self) -> None:
        self.averages = {name: value.clone() for name, value in self.model.state_dict().items()}
        self.optimizer = torch.optim.AdamW(self.model.parameters(), betas=(0.9, 0.98), weight_decay=1e-3, foreach=True)
        self._loss = TdtLoss(blank=len(self.model.tokenizer.vocab), durations=DURATIONS, sigma=SIGMA)

    def run(self, batches: Iterator[Batch], until: int) -> None:
        """Take steps until `until` are done, and print the mean loss now and then."""
        self.model.train()
        losses, began = [], time.monotonic()
        while self.step < until:
            losses.append(self._take(next(batches)))
            if self.step % _REPORT_STEPS == 0:
                pace_s = (time.monotonic() - began) / len(losses)
                print(
                    f"step {self.step}/{self.steps} loss {sum(losses) / len(losses):.3f} {pace_s:.2f} s/step",
                    flush=True,
                )
                losses, began = [], time.monotonic()

    def _take(self, batch: Batch) -> float:
        for group in self.optimizer.param_groups:
            group["lr"] = self._rate()
        losses = losses_of(self.model, self._loss, batch)
        loss = losses.sum() / batch.label_counts.clamp(min=1).sum()
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.step += 1
        self._average()
        return loss.item()

    def _rate(self) -> float:
        """Linear warm-up, then half a cosine down."""
        if self.step < _WARM_UP_STEPS:
            return _PEAK_RATE * (self.step + 1) / _WARM_UP_STEPS
        done = min((self.step - _WARM_UP_STEPS) / max(self.steps - _WARM_UP_STEPS, 1), 1.0)
        return _LAST_RATE + (_PEAK_RATE - _LAST_RATE) * (1 + math.cos(math.pi * done)) / 2

    @torch.no_grad()
    def _average(self) -> None:
        """An exponential average of the weights, of the last few steps at first and of 250 later."""
        keep = min(1 - 1 / 250, 1 - 10 / (self.step + 10))
        for name, value in self.model.state_dict().items():
            if value.is_floating_point():
                self.averages[name].lerp_(value, 1 - keep)

    def save(self, path: Path) -> None:
        """Write a checkpoint; a crash while it is written leaves the last one."""
        state = {
            "step": self.step,
            "best": self.best,
            "model": self.model.state_dict(),
            "averages": self.averages,
            "optimizer": self.optimizer.state_dict(),
        }
        partial = path.with_suffix(".partial")
        torch.save(state, partial)
        os.replace(partial, path)

    def resume(self, path: Path) -> None:
        """Take up what `save` wrote."""
        state: dict[str, Any] = torch.load(path, weights_only=True)
        self.step, self.best, self.averages = state["step"], state["best"], state["averages"]
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])

    def export(self, path: Path) -> None:
        """Write the averaged weights as a `.nemo` file."""
        trained = {name: value.clone() for name, value in self.model.state_dict().items()}
        self.model.load_state_dict(self.averages)
        self.model.eval()
        self.model.save_to(str(path))
        self.model.load_state_dict(trained)
        self.model.train()


def losses_of(model: EncDecRNNTBPEModel, loss: TdtLoss, batch: Batch) -> Tensor:
    """The loss of each sequence of a batch, `(batch,)`."""
    encoded, frames = model.forward(input_signal=batch.samples, input_signal_length=batch.sample_counts)
    predicted, _, _ = model.decoder(targets=batch.labels, target_length=batch.label_counts)
    logits = model.joint(encoder_outputs=encoded, decoder_outputs=predicted)
    return loss(logits, batch.labels, frames, batch.label_counts, batch.bounds(frames))
