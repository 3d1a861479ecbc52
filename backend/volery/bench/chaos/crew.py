"""The worker processes: started, killed, stopped, drained, and always replaced."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import signal
from dataclasses import replace
from multiprocessing.context import ForkServerContext, ForkServerProcess

from volery.bench.chaos.plan import Work, WorkerOrder, ready_file


class Crew:
    """One process for each order; one that is gone is replaced by `replace_gone`."""

    def __init__(self, orders: list[WorkerOrder], work: Work, chance: random.Random) -> None:
        self._orders = orders
        self._work = work
        self._chance = chance
        # Forked from a process that has imported everything: a new worker costs next to nothing.
        self._context: ForkServerContext = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["__main__", work.__module__, "volery.bench.chaos.worker"])
        self._processes: list[ForkServerProcess | None] = [None] * len(orders)
        self.started = 0
        self.crashed = 0

    def replace_gone(self) -> None:
        """Start a process in every place that has none alive."""
        for place, process in enumerate(self._processes):
            if process is None or not process.is_alive():
                self.crashed += process is not None and (process.exitcode or 0) > 0  # negative: by a signal
                self._processes[place] = self._start(self._orders[place])

    def _start(self, order: WorkerOrder) -> ForkServerProcess:
        process = self._context.Process(target=self._work, args=(replace(order, seed=self._chance.getrandbits(32)),))
        process.start()
        self.started += 1
        return process

    def signal(self, place: int, number: signal.Signals) -> bool:
        """Send a signal to the process in a place; False where it is gone."""
        process = self._processes[place]
        if process is None or process.pid is None or not process.is_alive():
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, number)
            return True
        return False

    def at_work(self) -> list[int]:
        """The places whose processes have started to work."""
        return [place for place in range(len(self._orders)) if self._works(place)]

    def _works(self, place: int) -> bool:
        process, folder = self._processes[place], self._orders[place].folder
        if process is None or process.pid is None or not process.is_alive():
            return False
        return ready_file(folder, process.pid).exists()

    def drain(self, seconds: float) -> None:
        """Let every process go on, tell it to drain, and kill what is left after so many seconds."""
        for place in range(len(self._processes)):
            self.signal(place, signal.SIGCONT)
            self.signal(place, signal.SIGTERM)
        for process in filter(None, self._processes):
            process.join(seconds)
            process.kill()
            process.join()
