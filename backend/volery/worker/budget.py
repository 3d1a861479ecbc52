"""The decode budget: audio-seconds that may be held decoded, shared strictly first-come."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable


class Hold:
    """A share of the budget. Closing it gives it back; closing twice is harmless."""

    def __init__(self, budget: DecodeBudget, seconds: float) -> None:
        self._budget = budget
        self.seconds = seconds

    def shrink(self, seconds: float) -> None:
        """Give back what turned out not to be needed; a hold never grows."""
        if seconds < self.seconds:
            excess, self.seconds = self.seconds - seconds, seconds
            self._budget.give_back(excess)

    def close(self) -> None:
        """Give all of it back."""
        self.shrink(0.0)


class DecodeBudget:
    """A number of audio-seconds, granted in the order asked, whoever asks.

    A large request at the head is waited for, never overtaken: so no lane starves another.
    """

    def __init__(self, limit: float, on_change: Callable[[float], None] | None = None) -> None:
        self.limit = limit
        self.high_water = 0.0
        self._in_use = 0.0
        self._on_change = on_change
        self._waiting: deque[tuple[float, asyncio.Future[None]]] = deque()

    @property
    def in_use(self) -> float:
        """Seconds held at this moment."""
        return self._in_use

    def fits(self, seconds: float) -> bool:
        """Whether a request of this size can ever be granted."""
        return seconds <= self.limit

    def is_free_for(self, seconds: float) -> bool:
        """Whether a request of this size would be granted at once."""
        return not self._waiting and self._in_use + seconds <= self.limit

    async def acquire(self, seconds: float) -> Hold:
        """Wait for `seconds` of the budget.

        Raises:
            ValueError: more than the whole budget, which would wait for ever.
        """
        if not self.fits(seconds):
            raise ValueError(f"{seconds} s can never fit a budget of {self.limit} s")
        if not self.is_free_for(seconds):
            await self._wait(seconds)
        else:
            self._take(seconds)
        return Hold(self, seconds)

    def give_back(self, seconds: float) -> None:
        """Return seconds and serve whoever waits; for `Hold` alone."""
        self._change(-seconds)
        self._serve()

    async def _wait(self, seconds: float) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (seconds, turn)
        self._waiting.append(entry)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # granted in the very moment of the cancellation
                self._change(-seconds)
            elif entry in self._waiting:
                self._waiting.remove(entry)
            self._serve()
            raise

    def _serve(self) -> None:
        while self._waiting:
            seconds, turn = self._waiting[0]
            if not turn.cancelled():
                if self._in_use + seconds > self.limit:
                    return
                self._take(seconds)
                turn.set_result(None)
            self._waiting.popleft()

    def _take(self, seconds: float) -> None:
        self._change(seconds)
        self.high_water = max(self.high_water, self._in_use)

    def _change(self, seconds: float) -> None:
        self._in_use += seconds
        if abs(self._in_use) < 1e-6:
            self._in_use = 0.0
        if self._on_change is not None:
            self._on_change(self._in_use)
