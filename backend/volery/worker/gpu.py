"""The one GPU of a process: the lock that lanes take turns with, and the thread that every call runs on."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class Turn:
    """A lane's place in the line for the GPU; at its head the lane has the lock. Closing twice is harmless."""

    def __init__(self, lock: GpuLock, on_turn: Callable[[], None]) -> None:
        self._lock = lock
        self.on_turn = on_turn

    @property
    def has_gpu(self) -> bool:
        """Whether the lock is held."""
        return self._lock.holder is self

    def close(self) -> None:
        """Release the lock, or leave the line."""
        self._lock.drop(self)


class GpuLock:
    """The GPU lock: lanes have it in the order in which they asked."""

    def __init__(self) -> None:
        self._line: deque[Turn] = deque()

    @property
    def holder(self) -> Turn | None:
        """Whose turn it is."""
        return self._line[0] if self._line else None

    def ask(self, on_turn: Callable[[], None]) -> Turn:
        """Stand in line; `on_turn` is called if the lock is had later than at once."""
        turn = Turn(self, on_turn)
        self._line.append(turn)
        return turn

    def drop(self, turn: Turn) -> None:
        """Take a turn out of the line; for `Turn` alone."""
        if turn not in self._line:
            return
        had_gpu = turn.has_gpu
        self._line.remove(turn)
        if had_gpu and (holder := self.holder) is not None:
            holder.on_turn()


class GpuThread:
    """Runs every accelerator call of the process, one after another, on one thread.

    A daemon thread, so that a call that never returns cannot keep a drained process alive.
    """

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name="gpu", daemon=True)
        self._thread.start()

    def submit(self, call: Callable[[], T]) -> Future[T]:
        """Queue a call; its outcome arrives in the future."""
        future: Future[T] = Future()
        self._calls.put((future, call))
        return future

    async def run(self, call: Callable[[], T]) -> T:
        """Queue a call and wait for it; a cancelled wait does not stop the call."""
        return await asyncio.wrap_future(self.submit(call))

    def close(self) -> None:
        """End the thread after the calls already queued."""
        self._calls.put(None)

    def _serve(self) -> None:
        while (item := self._calls.get()) is not None:
            future, call = item
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(call())
                except BaseException as error:
                    future.set_exception(error)
            del item, future, call
