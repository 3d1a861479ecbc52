"""The IO threads: what fetches, decodes and publishes, and whose turn it is."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from enum import Enum, auto
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")

Call = tuple[Future[Any], Callable[[], Any]]


class Work(Enum):
    """What a call is for. Within one kind the order asked is the order served."""

    SECTION = auto()
    """Fetch or decode for the lane that has the GPU: it may be waiting under the lock."""
    DECODE = auto()
    """Decode of a file that is open: it finishes what was begun."""
    FETCH = auto()
    """Opening of a file that a lane means to prepare."""
    PUBLISH = auto()
    """Writing of a result."""


_AUDIO = (Work.SECTION, Work.DECODE, Work.FETCH)


class IoQueue:
    """Calls that wait for a thread.

    Audio and publications share the threads evenly while both wait, so that neither a flight's
    publications keep the GPU waiting for audio, nor fetches keep a lane from publishing and
    admitting more; while only one waits it has every thread. Not safe from several threads.
    """

    def __init__(self) -> None:
        self._waiting: dict[Work, deque[Call]] = {work: deque() for work in Work}
        self._running = dict.fromkeys(Work, 0)

    def put(self, work: Work, call: Call) -> None:
        """Add a call."""
        self._waiting[work].append(call)

    def take(self) -> tuple[Work, Call] | None:
        """The call whose turn it is, which runs until `done`; None where nothing waits."""
        if (work := self._next()) is None:
            return None
        self._running[work] += 1
        return work, self._waiting[work].popleft()

    def done(self, work: Work) -> None:
        """A call that was taken has ended."""
        self._running[work] -= 1

    def _next(self) -> Work | None:
        audio = next((work for work in _AUDIO if self._waiting[work]), None)
        if not self._waiting[Work.PUBLISH]:
            return audio
        publications_lead = self._running[Work.PUBLISH] >= sum(self._running[work] for work in _AUDIO)
        return audio if audio is not None and publications_lead else Work.PUBLISH


class IoThreads:
    """A fixed number of threads that serve an `IoQueue`.

    Daemon threads, so that a fetch that never returns cannot keep a drained process alive.
    """

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._queue = IoQueue()
        self._turn = threading.Condition()
        self._closed = False
        for number in range(threads):
            threading.Thread(target=self._serve, name=f"io-{number}", daemon=True).start()

    def submit(self, work: Work, call: Callable[..., T], *args: Any) -> Future[T]:
        """Queue a call; its outcome arrives in the future."""
        future: Future[T] = Future()
        with self._turn:
            self._queue.put(work, (future, partial(call, *args)))
            self._turn.notify()
        return future

    def close(self) -> None:
        """Cancel what waits and end each thread after its call; does not wait for them."""
        with self._turn:
            self._closed = True
            waiting = [taken[1][0] for taken in iter(self._queue.take, None)]
            self._turn.notify_all()
        for future in waiting:
            future.cancel()

    def _serve(self) -> None:
        while (taken := self._next()) is not None:
            work, (future, call) = taken
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(call())
                except BaseException as error:
                    future.set_exception(error)
            with self._turn:
                self._queue.done(work)
            del taken, future, call

    def _next(self) -> tuple[Work, Call] | None:
        with self._turn:
            while (taken := self._queue.take()) is None:
                if self._closed:
                    return None
                self._turn.wait()
            return taken
