"""What goes wrong in a run, and when: each kind of fault on its own beat, its victims drawn from the seed."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path

from volery.bench.chaos.crew import Crew
from volery.bench.chaos.plan import LEASE_SECONDS, Plan
from volery.bench.chaos.proxy import Proxy
from volery.bench.chaos.server import StopMode, ThrowawayServer

_KILL_EVERY_S = 2.0
_STOP_EVERY_S = 6.0
_STAND_STILL_EVERY_S = 2.5
_CUT_EVERY_S = 3.0
_DRAIN_EVERY_S = 5.0
_HURRY_AFTER_S = 0.1
_SHORTEN_EVERY_S = 4.0
_SHORT_FOR_S = 0.7
_LOOK_EVERY_S = 0.1


class Faults:
    """Does the harm of a plan and counts it."""

    def __init__(
        self, plan: Plan, server: ThrowawayServer, crew: Crew, proxies: list[Proxy], audio: list[Path]
    ) -> None:
        self._plan = plan
        self._server = server
        self._crew = crew
        self._proxies = proxies
        self._audio = audio
        self._chance = random.Random(plan.seed)
        self.done: Counter[str] = Counter()

    async def run(self) -> None:
        """Do harm for the plan's time; afterwards every process runs and the network flows."""
        async with (
            _every(_KILL_EVERY_S, self._kill),
            _every(_STOP_EVERY_S, self._stop),
            _every(_STAND_STILL_EVERY_S, self._stand_still),
            _every(_CUT_EVERY_S, self._cut),
            _every(_DRAIN_EVERY_S, self._drain),
            _every(_SHORTEN_EVERY_S, self._shorten),
        ):
            third = self._plan.seconds / 3
            await asyncio.sleep(third)
            await self._restart("immediate")
            await asyncio.sleep(third)
            await self._restart("fast")
            await asyncio.sleep(third)
        for place in range(self._plan.workers):
            self._crew.signal(place, signal.SIGCONT)
        self.done["connections cut in a commit"] = sum(proxy.commits_cut for proxy in self._proxies)

    async def _anyone(self) -> int:
        """The place of a process that works, as soon as there is one."""
        while not (places := self._crew.at_work()):  # noqa: ASYNC110  # other processes set no events
            await asyncio.sleep(_LOOK_EVERY_S)
        return self._chance.choice(places)

    def _past_a_lease(self) -> float:
        """Long enough that what comes late comes before a reaper, after it, or while another has the unit."""
        return LEASE_SECONDS * self._chance.uniform(0.7, 2.0)

    async def _kill(self) -> None:
        self.done["processes killed"] += self._crew.signal(await self._anyone(), signal.SIGKILL)

    async def _stop(self) -> None:
        place = await self._anyone()
        if self._crew.signal(place, signal.SIGSTOP):
            self.done["processes stopped past a lease"] += 1
            try:
                await asyncio.sleep(self._past_a_lease())
            finally:
                self._crew.signal(place, signal.SIGCONT)

    async def _stand_still(self) -> None:
        self.done["networks that stood still past a lease"] += 1
        await self._proxies[await self._anyone()].stand_still(self._past_a_lease())

    async def _cut(self) -> None:
        self._proxies[await self._anyone()].break_in_next_commit(self._chance.choice(["before", "after"]))

    async def _drain(self) -> None:
        """Drain a process; every other time it is soon told again, and gives all back at once."""
        place = await self._anyone()
        self.done["processes drained"] += self._crew.signal(place, signal.SIGTERM)
        if self.done["processes drained"] % 2:
            await asyncio.sleep(_HURRY_AFTER_S)
            self._crew.signal(place, signal.SIGTERM)

    async def _shorten(self) -> None:
        """Cut a file short under its readers, then write the rest again."""
        path = self._chance.choice(self._audio)
        whole = path.read_bytes()
        os.truncate(path, len(whole) // 2)
        self.done["audio files cut short for a while"] += 1
        try:
            await asyncio.sleep(_SHORT_FOR_S)
        finally:
            path.write_bytes(whole)

    async def _restart(self, mode: StopMode) -> None:
        await asyncio.to_thread(self._server.stop, mode)
        await asyncio.to_thread(self._server.start)
        self.done[f"database restarts ({mode})"] += 1


@asynccontextmanager
async def _every(seconds: float, act: Callable[[], Coroutine[None, None, None]]) -> AsyncIterator[None]:
    """Do something on a beat beside the block, however long it takes; at the end the last of it is waited for."""

    async def beat() -> None:
        while True:
            await asyncio.sleep(seconds)
            acts.create_task(act())

    async with asyncio.TaskGroup() as acts:
        beating = asyncio.create_task(beat())
        try:
            yield
        finally:
            beating.cancel()
