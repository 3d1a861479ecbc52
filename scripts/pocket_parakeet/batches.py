"""Training sequences as tensors, batched by length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from nemo.collections.common.tokenizers import TokenizerSpec
from torch import Tensor

from pocket_parakeet.loss import Bounds
from pocket_parakeet.network import FRAME_S
from pocket_parakeet.noise import SAMPLE_RATE
from pocket_parakeet.sequences import Composer, SpokenSequence, SpokenWord

BATCH_S = 60.0
"""Seconds of audio a batch, padding included."""

_POOL = 64
_TOLERANCE = 1
"""Frames by which a word may start or end early or late."""


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Samples and labels, padded, with their counts; `places` is where the words of the labels lie."""

    samples: Tensor
    sample_counts: Tensor
    labels: Tensor
    label_counts: Tensor
    places: tuple[tuple[SpokenWord, ...], ...]
    pieces: tuple[tuple[int, ...], ...]

    def bounds(self, frames: Tensor) -> Bounds:
        """Where labels may go in encoded sequences of so many frames."""
        rows = [
            _row(words, pieces, int(count), self.labels.shape[1])
            for words, pieces, count in zip(self.places, self.pieces, frames, strict=True)
        ]
        return Bounds(*torch.tensor(rows).unbind(1))


def _row(words: Sequence[SpokenWord], pieces: Sequence[int], frames: int, width: int) -> list[list[int]]:
    """Earliest, latest, first and last landing of each label; what pads the labels may go anywhere."""
    columns = [
        column
        for word, count in zip(words, pieces, strict=True)
        for column in _columns(_frame(word.start_s, frames), _frame(word.end_s, frames), count)
    ]
    columns += [(0, frames, 0, frames)] * (width - len(columns))
    return [list(bound) for bound in zip(*columns, strict=True)]


def _frame(time_s: float, frames: int) -> int:
    return min(round(time_s / FRAME_S), frames - 1)


def _columns(start: int, end: int, count: int) -> Iterator[tuple[int, int, int, int]]:
    """A word's first piece is emitted at its start, and its last one leads to its end."""
    first, last = start - _TOLERANCE, end + _TOLERANCE
    for place in range(count):
        yield (
            first,
            start + _TOLERANCE if place == 0 else last,
            end - _TOLERANCE if place == count - 1 else first,
            last,
        )


def batch_of(sequences: Sequence[SpokenSequence], tokenizer: TokenizerSpec) -> Batch:
    """Sequences side by side."""
    spelled = [[tokenizer.text_to_ids(word.text) for word in sequence.words] for sequence in sequences]
    labels = [[token for word in words for token in word] for words in spelled]
    return Batch(
        samples=_padded([torch.from_numpy(sequence.samples) for sequence in sequences]),
        sample_counts=torch.tensor([len(sequence.samples) for sequence in sequences]),
        labels=_padded([torch.tensor(row or [0]) for row in labels]),
        label_counts=torch.tensor([len(row) for row in labels]),
        places=tuple(sequence.words for sequence in sequences),
        pieces=tuple(tuple(len(word) for word in words) for words in spelled),
    )


def _padded(rows: Sequence[Tensor]) -> Tensor:
    return torch.nn.utils.rnn.pad_sequence(list(rows), batch_first=True)


def batches(composer: Composer, tokenizer: TokenizerSpec, rng: np.random.Generator) -> Iterator[Batch]:
    """Batches without end, each of sequences that are about as long as each other."""
    while True:
        pool = sorted((composer.compose() for _ in range(_POOL)), key=lambda sequence: len(sequence.samples))
        groups = list(_groups(pool))
        for index in rng.permutation(len(groups)):
            yield batch_of(groups[index], tokenizer)


def _groups(pool: Sequence[SpokenSequence]) -> Iterator[list[SpokenSequence]]:
    """Neighbours of a pool sorted by length, as many together as fit into a batch."""
    group: list[SpokenSequence] = []
    for sequence in pool:
        if group and (len(group) + 1) * len(sequence.samples) > BATCH_S * SAMPLE_RATE:
            yield group
            group = []
        group.append(sequence)
    yield group
