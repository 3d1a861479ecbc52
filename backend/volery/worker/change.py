"""How a lane waits: for anything about its flight to change, to look again."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class Change:
    """Wakes whoever waits. A lane decides between two waits, all at once, so nothing can slip in between."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def announce(self) -> None:
        """Wake whoever waits now."""
        self._event.set()
        self._event = asyncio.Event()

    async def wait(self) -> None:
        """Wait for the next announcement."""
        await self._event.wait()


def deliver(future: Future[T], to: Callable[[Future[T]], object]) -> None:
    """Have a thread's outcome handed to a function on the running loop, cancelled or not."""
    loop = asyncio.get_running_loop()

    def post(done: Future[Any]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is gone, and everything with it
            loop.call_soon_threadsafe(to, done)

    future.add_done_callback(post)
