"""Calls that may hang."""

from __future__ import annotations

from threading import Event

import pytest

from volery.artifacts.deadlines import within


def test_what_returns_in_time_is_returned() -> None:
    assert within(60, lambda: 1) == 1


def test_what_is_raised_in_time_is_raised() -> None:
    with pytest.raises(KeyError):
        within(60, lambda: {}["x"])


def test_what_hangs_is_left_behind() -> None:
    never = Event()
    with pytest.raises(TimeoutError):
        within(0.01, never.wait)
    never.set()
