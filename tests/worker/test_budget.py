"""The decode budget: bounded, first-come, and its books always balance."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from volery.worker.budget import DecodeBudget, Hold


async def _step() -> None:
    """Let every task that can run do so."""
    for _ in range(5):
        await asyncio.sleep(0)


async def acquired(budget: DecodeBudget, seconds: float) -> Hold:
    """A hold, once it is granted; whoever stops waiting leaves the line, as a lane does."""
    granted = asyncio.Event()
    hold = budget.ask(seconds, granted.set)
    try:
        await granted.wait()
    except asyncio.CancelledError:
        hold.close()
        raise
    return hold


async def test_a_request_that_fits_is_granted_at_once() -> None:
    budget = DecodeBudget(10.0)
    await acquired(budget, 10.0)
    assert budget.in_use == 10.0


async def test_a_request_larger_than_the_whole_budget_is_refused() -> None:
    with pytest.raises(ValueError, match="never fit"):
        await acquired(DecodeBudget(10.0), 10.1)


async def test_a_small_request_does_not_overtake_a_large_one() -> None:
    budget = DecodeBudget(10.0)
    first = await acquired(budget, 6.0)
    large = asyncio.create_task(acquired(budget, 8.0))
    small = asyncio.create_task(acquired(budget, 1.0))
    await _step()
    assert not large.done()
    assert not small.done()
    first.close()
    await _step()
    assert large.done()
    assert small.done()
    assert budget.in_use == 9.0


async def test_closing_a_hold_twice_returns_it_once() -> None:
    budget = DecodeBudget(10.0)
    hold, _other = await acquired(budget, 4.0), await acquired(budget, 4.0)
    hold.close()
    hold.close()
    assert budget.in_use == 4.0


async def test_a_hold_never_grows() -> None:
    budget = DecodeBudget(10.0)
    hold = await acquired(budget, 4.0)
    hold.shrink(9.0)
    assert (hold.seconds, budget.in_use) == (4.0, 4.0)


async def test_a_place_in_line_that_is_given_up_lets_the_next_through() -> None:
    budget = DecodeBudget(10.0)
    first, large, small = budget.ask(6.0), budget.ask(8.0), budget.ask(3.0)
    large.close()
    assert (first.is_granted, large.is_granted, small.is_granted) == (True, False, True)
    large.close()
    assert budget.in_use == 9.0


async def test_whoever_waits_is_told_of_the_grant() -> None:
    budget, told = DecodeBudget(10.0), []
    first = budget.ask(10.0)
    budget.ask(5.0, lambda: told.append("granted"))
    assert told == []
    first.shrink(5.0)
    assert told == ["granted"]


def test_the_books_can_be_read_while_they_change() -> None:
    budget = DecodeBudget(10.0)

    class Leaving(Hold):
        """Is given back in the moment in which another thread looks at it."""

        @property
        def seconds(self) -> float:
            self.close()
            return 4.0

        @seconds.setter
        def seconds(self, _: float) -> None:
            """It is what it is."""

    budget._granted |= {Leaving(budget, 4.0, lambda: None) for _ in range(2)}
    assert budget.in_use == 8.0
    assert budget.in_use == 0.0


def test_tenths_of_seconds_leave_nothing_behind() -> None:
    budget = DecodeBudget(1800.0)
    holds = [budget.ask(0.1 * n) for n in range(1, 100)]
    for hold in holds:
        hold.shrink(hold.seconds / 3)
        hold.close()
    assert budget.in_use == 0.0


async def test_a_cancelled_wait_lets_the_next_in_line_through() -> None:
    budget = DecodeBudget(10.0)
    await acquired(budget, 6.0)
    large = asyncio.create_task(acquired(budget, 8.0))
    small = asyncio.create_task(acquired(budget, 3.0))
    await _step()
    large.cancel()
    await _step()
    assert small.done()
    assert budget.in_use == 9.0


async def test_a_wait_cancelled_in_the_moment_of_its_grant_returns_it() -> None:
    budget = DecodeBudget(10.0)
    first = await acquired(budget, 10.0)
    waiting = asyncio.create_task(acquired(budget, 5.0))
    await _step()
    first.close()
    waiting.cancel()
    await _step()
    assert budget.in_use == 0.0


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(0.01, 12.0), st.sampled_from(["close", "shrink", "cancel"])), max_size=40))
def test_the_books_balance_whatever_happens(requests: list[tuple[float, str]]) -> None:
    async def scenario() -> None:
        seen: list[float] = []
        budget = DecodeBudget(10.0, seen.append)
        granted: list[int] = []

        async def ask(n: int, seconds: float, fate: str) -> None:
            if not budget.fits(seconds):
                return
            hold: Hold = await acquired(budget, seconds)
            try:
                granted.append(n)
                await asyncio.sleep(0)
                if fate == "shrink":
                    hold.shrink(seconds / 2)
                    await asyncio.sleep(0)
            finally:
                hold.close()

        tasks = [asyncio.create_task(ask(n, *request)) for n, request in enumerate(requests)]
        await asyncio.sleep(0)
        for task, (_, fate) in zip(tasks, requests, strict=True):
            if fate == "cancel":
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert budget.in_use == 0.0
        assert all(0.0 <= value <= 10.0 + 1e-6 for value in seen)
        assert granted == sorted(granted)

    asyncio.run(scenario())
