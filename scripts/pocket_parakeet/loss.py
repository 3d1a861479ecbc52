"""The token-and-duration transducer (TDT) loss on a CPU.

Xu et al., "Efficient Sequence Transduction by Jointly Predicting Tokens and Durations" (2023),
https://arxiv.org/abs/2304.06795, equation 7. NeMo's own needs CUDA. Which arcs a label may take can
be restricted to where the word is known to be, after Mahadeokar et al., "Alignment Restricted
Streaming Recurrent Neural Network Transducer" (2020), https://arxiv.org/abs/2011.03072: a
transducer is otherwise free to emit a word early or late, and its times are worth little.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

IMPOSSIBLE = -1e30
"""The log probability of what cannot happen; finite, so that gradients through it are zero and not NaN."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Where each label may be emitted and where its duration may lead, in frames, both ends included.

    Each tensor is `(batch, labels)`.
    """

    earliest: Tensor
    latest: Tensor
    lands_from: Tensor
    lands_by: Tensor

    def allow(self, frames: int, durations: Sequence[int]) -> Tensor:
        """Whether a label may be emitted at a frame with a duration: `(batch, frames, labels, durations)`."""
        at = torch.arange(frames)[None, :, None, None]
        lands = at + torch.tensor(list(durations))[None, None, None, :]
        earliest, latest, lands_from, lands_by = (
            bound[:, None, :, None] for bound in (self.earliest, self.latest, self.lands_from, self.lands_by)
        )
        return (earliest <= at) & (at <= latest) & (lands_from <= lands) & (lands <= lands_by)


@dataclass(frozen=True, slots=True)
class TdtLoss:
    """Negative log likelihood of labels under a TDT joint network.

    `sigma` is the logit under-normalisation of the paper: a constant cost of every emission, which
    makes longer durations worth taking.
    """

    blank: int
    durations: tuple[int, ...] = (0, 1, 2, 3, 4)
    sigma: float = 0.02

    def __call__(
        self, logits: Tensor, labels: Tensor, frames: Tensor, label_counts: Tensor, bounds: Bounds | None = None
    ) -> Tensor:
        """The loss of each sequence, `(batch,)`.

        Args:
            logits: the joint network's output, `(batch, frames, labels + 1, tokens + blank + durations)`.
            labels: token ids, `(batch, labels)`.
            frames: how many frames of each sequence count, `(batch,)`.
            label_counts: how many labels of each sequence count, `(batch,)`.
            bounds: where labels may go; anywhere if absent.
        """
        blank_arcs, label_arcs = self._arcs(logits, labels)
        if bounds is not None:
            allowed = bounds.allow(logits.shape[1], self.durations)
            label_arcs = label_arcs.masked_fill(~allowed, IMPOSSIBLE)
        blank_arcs = blank_arcs[..., [d > 0 for d in self.durations]]  # a blank always moves on
        blank_arcs, label_arcs = _skew(blank_arcs), _skew(label_arcs)
        return -self._total(self._alphas(blank_arcs, label_arcs), blank_arcs, frames, label_counts)

    @property
    def _steps(self) -> list[int]:
        return [d for d in self.durations if d > 0]

    def _arcs(self, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Log probabilities of blank and of the next label: `(batch, frames, labels, durations)` each."""
        kinds = len(self.durations)
        tokens = logits[..., :-kinds].log_softmax(-1) - self.sigma
        lasts = logits[..., -kinds:].log_softmax(-1)
        wanted = labels[:, None, :, None].expand(-1, logits.shape[1], -1, -1)
        emitted = tokens[:, :, :-1].gather(-1, wanted)
        return tokens[..., self.blank, None] + lasts, emitted + lasts[:, :, :-1]

    def _alphas(self, blank_arcs: Tensor, label_arcs: Tensor) -> Tensor:
        """Forward log probabilities of `(t, u)` along the anti-diagonals `t + u`: `(diagonals, batch, labels + 1)`.

        Every predecessor lies on an earlier diagonal, so that a whole diagonal is computed at once.
        """
        alpha = torch.full_like(blank_arcs[0, :, :, 0], IMPOSSIBLE)
        alpha[:, 0] = 0.0
        alphas, waits, emits = [alpha], [], []
        for diagonal in range(1, len(blank_arcs)):
            waits.append(alpha[..., None] + blank_arcs[diagonal - 1])
            emits.append(functional.pad(alpha[:, :-1, None] + label_arcs[diagonal - 1], (0, 0, 1, 0), value=IMPOSSIBLE))
            into = [waits[diagonal - d][..., i] for i, d in enumerate(self._steps) if d <= diagonal]
            into += [emits[diagonal - 1 - d][..., i] for i, d in enumerate(self.durations) if d < diagonal]
            alpha = torch.stack(into).logsumexp(0)
            alphas.append(alpha)
        return torch.stack(alphas)

    def _total(self, alphas: Tensor, blank_arcs: Tensor, frames: Tensor, label_counts: Tensor) -> Tensor:
        """Log probability of leaving the last frame by a blank after the last label, `(batch,)`."""
        batch = torch.arange(len(frames))
        ends = []
        for i, d in enumerate(self._steps):
            at = frames - d
            diagonal = at.clamp(min=0) + label_counts
            end = alphas[diagonal, batch, label_counts] + blank_arcs[diagonal, batch, label_counts, i]
            ends.append(end.masked_fill(at < 0, IMPOSSIBLE))
        return torch.stack(ends).logsumexp(0)


def _skew(arcs: Tensor) -> Tensor:
    """Arcs by anti-diagonal `t + u`: `(batch, frames, labels, n)` to `(diagonals, batch, labels, n)`."""
    _, frames, labels, kinds = arcs.shape
    at = torch.arange(frames + labels)[:, None] - torch.arange(labels)[None, :]
    outside = (at < 0) | (at >= frames)
    index = at.clamp(0, frames - 1)[None, :, :, None].expand(len(arcs), -1, -1, kinds)
    skewed = arcs.gather(1, index).masked_fill(outside[None, :, :, None], IMPOSSIBLE)
    return skewed.transpose(0, 1)
