"""Stretches of time as sorted lists of `(start, end)`, in seconds, that neither overlap nor touch."""

from __future__ import annotations

import math
from collections.abc import Iterable

Spans = list[tuple[float, float]]


def union(spans: Iterable[tuple[float, float]]) -> Spans:
    """Stretches in any order, overlapping or not, as the time that they cover."""
    merged: Spans = []
    for start, end in sorted(spans):
        if end <= start:
            continue
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def length(spans: Spans) -> float:
    """Seconds in all."""
    return sum(end - start for start, end in spans)


def common(one: Spans, other: Spans) -> Spans:
    """The time that both cover."""
    both: Spans = []
    i = j = 0
    while i < len(one) and j < len(other):
        start, end = max(one[i][0], other[j][0]), min(one[i][1], other[j][1])
        if start < end:
            both.append((start, end))
        if one[i][1] <= other[j][1]:
            i += 1
        else:
            j += 1
    return both


def without(spans: Spans, taken: Spans) -> Spans:
    """What `spans` cover and `taken` do not."""
    ends = (-math.inf, *(end for _, end in taken))
    starts = (*(start for start, _ in taken), math.inf)
    return common(spans, list(zip(ends, starts, strict=True)))
