"""The one GPU thread of a process."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


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
