"""The TDT loss on a CPU, against every path written out."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from pocket_parakeet.loss import Bounds, TdtLoss

BLANK = 3
DURATIONS = (0, 1, 2)
LOSS = TdtLoss(blank=BLANK, durations=DURATIONS, sigma=0.05)

Path = list[tuple[int, int, int | None, int]]


def paths(frames: int, labels: int, t: int = 0, u: int = 0) -> Iterator[Path]:
    """Every path: steps of frame, labels so far, the label's place (none for blank) and duration."""
    for place, duration in enumerate(DURATIONS):
        if duration > 0:
            step = (t, u, None, place)
            if t + duration == frames and u == labels:
                yield [step]
            elif t + duration < frames:
                yield from ([step, *rest] for rest in paths(frames, labels, t + duration, u))
        if u < labels and t + duration < frames:
            yield from ([(t, u, u, place), *rest] for rest in paths(frames, labels, t + duration, u + 1))


def enumerated(
    logits: Tensor, labels: list[int], frames: int, bounds: list[tuple[int, int, int, int]] | None
) -> Tensor:
    """The loss of one sequence, from the sum of the probabilities of its paths."""
    tokens = logits[..., : -len(DURATIONS)].log_softmax(-1) - LOSS.sigma
    lasts = logits[..., -len(DURATIONS) :].log_softmax(-1)

    def allowed(path: Path) -> bool:
        for t, _, label, place in path:
            if bounds is not None and label is not None:
                earliest, latest, lands_from, lands_by = bounds[label]
                if not (earliest <= t <= latest and lands_from <= t + DURATIONS[place] <= lands_by):
                    return False
        return True

    def score(path: Path) -> Tensor:
        return sum(
            tokens[t, u, BLANK if label is None else labels[label]] + lasts[t, u, place] for t, u, label, place in path
        )

    return -torch.stack([score(path) for path in paths(frames, len(labels)) if allowed(path)]).logsumexp(0)


def logits(seed: int, batch: int = 1, frames: int = 4, labels: int = 2) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    shape = (batch, frames, labels + 1, BLANK + 1 + len(DURATIONS))
    return torch.randn(shape, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize(("frames", "labels"), [(1, []), (3, []), (1, [2]), (4, [0, 1]), (3, [2, 2]), (5, [1, 0, 2])])
def test_the_loss_is_the_sum_over_every_path(frames: int, labels: list[int]) -> None:
    scores = logits(1, frames=frames, labels=max(len(labels), 1))
    padded = torch.tensor([labels or [0]])

    loss = LOSS(scores, padded, torch.tensor([frames]), torch.tensor([len(labels)]))

    assert loss.item() == pytest.approx(enumerated(scores[0], labels, frames, None).item())


def test_padding_changes_no_loss() -> None:
    scores = logits(2, batch=2, frames=5, labels=3)

    losses = LOSS(scores, torch.tensor([[1, 0, 2], [2, 0, 0]]), torch.tensor([5, 3]), torch.tensor([3, 1]))

    alone = [enumerated(scores[0], [1, 0, 2], 5, None), enumerated(scores[1], [2], 3, None)]
    assert losses.tolist() == pytest.approx([loss.item() for loss in alone])


def test_bounds_leave_only_the_paths_within_them() -> None:
    scores = logits(3, frames=5)
    rows = [(1, 2, 0, 2), (2, 4, 3, 3)]
    bounds = Bounds(*(torch.tensor([column]) for column in zip(*rows, strict=True)))

    bounded = LOSS(scores, torch.tensor([[0, 1]]), torch.tensor([5]), torch.tensor([2]), bounds)
    free = LOSS(scores, torch.tensor([[0, 1]]), torch.tensor([5]), torch.tensor([2]))

    assert bounded.item() == pytest.approx(enumerated(scores[0], [0, 1], 5, rows).item())
    assert bounded.item() > free.item()


def test_a_longer_path_pays_sigma_more_often() -> None:
    scores = logits(4)
    arguments = (scores, torch.tensor([[0, 1]]), torch.tensor([4]), torch.tensor([2]))

    dearer = TdtLoss(BLANK, DURATIONS, sigma=1.05)(*arguments) - LOSS(*arguments)

    fewest_emissions = 2 + 1  # two labels that move on by two frames at most, and the last blank
    assert dearer.item() >= fewest_emissions * 1.0


@pytest.mark.parametrize("bounded", [False, True])
def test_the_gradient_is_the_slope(bounded: bool) -> None:
    scores = logits(5, batch=2).requires_grad_()
    bounds = Bounds(*(torch.tensor([[low, low], [low, low]]) for low in (0, 3, 0, 3))) if bounded else None

    def loss(values: Tensor) -> Tensor:
        return LOSS(values, torch.tensor([[0, 1], [2, 0]]), torch.tensor([4, 3]), torch.tensor([2, 1]), bounds)

    assert torch.autograd.gradcheck(loss, (scores,))


def test_the_gradient_is_that_of_every_path_written_out() -> None:
    scores = logits(6).requires_grad_()

    (fast,) = torch.autograd.grad(
        LOSS(scores, torch.tensor([[0, 1]]), torch.tensor([4]), torch.tensor([2])).sum(), scores
    )
    (slow,) = torch.autograd.grad(enumerated(scores[0], [0, 1], 4, None), scores)

    torch.testing.assert_close(fast, slow)


def test_impossible_sequences_give_no_nan() -> None:
    scores = logits(7, frames=2).requires_grad_()
    nowhere = Bounds(*(torch.tensor([[bound, bound]]) for bound in (9, 9, 9, 9)))

    loss = LOSS(scores, torch.tensor([[0, 1]]), torch.tensor([2]), torch.tensor([2]), nowhere)
    loss.sum().backward()

    assert math.isfinite(loss.item())
    assert scores.grad.isfinite().all()
