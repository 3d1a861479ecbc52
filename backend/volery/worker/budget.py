"""The decode budget: audio-seconds that may be held decoded, shared strictly first-come."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from math import fsum


class Hold:
    """A share of the budget, or a place in the line for one. Closing gives up either; twice is harmless."""

    def __init__(self, budget: DecodeBudget, seconds: float, on_grant: Callable[[], None]) -> None:
        self._budget = budget
        self._on_grant = on_grant
        self.seconds = seconds
        self.is_granted = False

    def grant(self) -> None:
        """Turn the place in the line into a share; for the budget alone."""
        self.is_granted = True
        self._on_grant()

    def shrink(self, seconds: float) -> None:
        """Give back what turned out not to be needed; a hold never grows."""
        if seconds < self.seconds:
            self.seconds = seconds
            self._budget.serve()

    def close(self) -> None:
        """Give all of it back, or leave the line."""
        self._budget.drop(self)


class DecodeBudget:
    """A number of audio-seconds, granted in the order asked, whoever asks.

    A large request at the head is waited for, never overtaken: so no lane starves another.
    """

    def __init__(self, limit: float, on_change: Callable[[float], None] = lambda _: None) -> None:
        self.limit = limit
        self.high_water = 0.0
        self._on_change = on_change
        self._granted: set[Hold] = set()
        self._line: deque[Hold] = deque()

    @property
    def in_use(self) -> float:
        """Seconds held at this moment: by definition the sum of all shares, so that the books cannot drift.

        The worker's page asks from a thread of its own, hence the copy.
        """
        return fsum(hold.seconds for hold in self._granted.copy())

    def fits(self, seconds: float) -> bool:
        """Whether a request of this size can ever be granted."""
        return seconds <= self.limit

    def ask(self, seconds: float, on_grant: Callable[[], None] = lambda: None) -> Hold:
        """Stand in line for `seconds`; where nobody waits and they are free, the hold is granted at once.

        Raises:
            ValueError: more than the whole budget, which would wait for ever.
        """
        if not self.fits(seconds):
            raise ValueError(f"{seconds} s can never fit a budget of {self.limit} s")
        hold = Hold(self, seconds, on_grant)
        self._line.append(hold)
        self.serve()
        return hold

    def serve(self) -> None:
        """Grant what is free to the head of the line; for `Hold` alone."""
        while self._line and self.in_use + self._line[0].seconds <= self.limit:
            hold = self._line.popleft()
            self._granted.add(hold)
            self.high_water = max(self.high_water, self.in_use)
            hold.grant()
        self._on_change(self.in_use)

    def drop(self, hold: Hold) -> None:
        """Forget a hold, granted or in line; for `Hold` alone."""
        if hold in self._granted:
            self._granted.remove(hold)
        elif hold in self._line:
            self._line.remove(hold)
        else:
            return
        hold.is_granted = False
        self.serve()
