"""Stretches of time, checked against tenths of a second counted one by one."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from bench.gate.planted import UNTIMED
from volery.bench.gate.spans import Spans, common, length, union, without

stretches = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=8)


def ticks(spans: list[tuple[int, int]] | Spans) -> set[int]:
    return {tick for start, end in spans for tick in range(int(start), int(end))}


@UNTIMED
@given(stretches)
def test_a_union_covers_what_its_parts_cover_in_order_and_without_touching(parts: list[tuple[int, int]]) -> None:
    merged = union(parts)
    assert ticks(merged) == ticks(parts)
    assert length(merged) == len(ticks(parts))
    assert all(before[1] < after[0] for before, after in itertools.pairwise(merged))


@UNTIMED
@given(stretches, stretches)
def test_common_time_is_what_both_cover(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> None:
    assert ticks(common(union(one), union(other))) == ticks(one) & ticks(other)


@UNTIMED
@given(stretches, stretches)
def test_what_is_left_is_covered_by_the_first_alone(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> None:
    assert ticks(without(union(one), union(other))) == ticks(one) - ticks(other)
