"""The worker: lanes that pull flights, and the ends they may come to (burst, drain, quarantine)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import uuid
from collections.abc import Sequence
from enum import Enum
from time import monotonic, perf_counter

import structlog

from volery import metrics
from volery.artifacts.store import AudioSource, ResultStore
from volery.queue.store import JobStore
from volery.settings import AudioSettings, WorkerSettings
from volery.units import QuarantineError, StoreError
from volery.worker.admission import Admission
from volery.worker.budget import DecodeBudget
from volery.worker.flight import FlightRun, Tools
from volery.worker.gpu import GpuLock, GpuThread
from volery.worker.health import Health
from volery.worker.io_threads import IoThreads
from volery.worker.leases import LeaseKeeper
from volery.worker.preparation import AudioLoader
from volery.worker.publication import OnEnded, Publisher
from volery.worker.section import Process, SectionTools
from volery.worker.stop import Stop
from volery.worker.timeline import OnSpan, Phase, Span

log = structlog.get_logger(__name__)


class Ending(Enum):
    """How a worker's run came to its end."""

    FINISHED = "finished"
    DRAINED = "drained"
    OVERRAN = "overran"
    QUARANTINED = "quarantined"


def process_name() -> str:
    """A name that no other process, and no later one on this host, shares."""
    return f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"


class Worker:
    """Runs lanes over a job store until it is drained, quarantined or, in a burst, out of work."""

    def __init__(
        self,
        *,
        store: JobStore,
        source: AudioSource,
        results: ResultStore,
        process: Process,
        gpu: GpuThread,
        settings: WorkerSettings,
        audio: AudioSettings,
        lease_seconds: float,
        prepare_whole_flight: bool,
        burst: bool = False,
        health: Health | None = None,
        stop: Stop | None = None,
        on_ended: OnEnded = lambda _: None,
        on_span: OnSpan = lambda _: None,
    ) -> None:
        self._settings = settings
        self._store = store
        self.health = health or Health(stall_seconds=settings.health_stall_seconds)
        self.stop = stop or Stop(self.health)
        self._io = IoThreads(settings.artifact_io_threads)
        self._keeper = LeaseKeeper(store, lease_seconds)
        self._lease_seconds = lease_seconds
        self._admission = Admission(
            store, self._keeper, settings, process_name(), lease_seconds, self.stop, burst=burst
        )
        metrics.BUDGET_LIMIT.set(settings.decode_budget_seconds)
        self._tools = Tools(
            gpu_lock=GpuLock(),
            section=SectionTools(process, gpu, self.health, DecodeBudget(settings.group_seconds), self._keeper),
            budget=DecodeBudget(settings.decode_budget_seconds, metrics.BUDGET_IN_USE.set),
            loader=AudioLoader(source, audio, settings.group_seconds),
            io=self._io,
            keeper=self._keeper,
            publisher=Publisher(
                store, results, self._keeper, self._io, self.switch_states, on_ended, self.stop, burst=burst
            ),
            stop=self.stop,
            prepare_whole_flight=prepare_whole_flight,
            on_span=on_span,
        )

    @property
    def budget(self) -> DecodeBudget:
        """The decode budget that the lanes share, as it runs."""
        return self._tools.budget

    @property
    def section_budget(self) -> DecodeBudget:
        """What the GPU section may hold decoded, as it runs."""
        return self._tools.section.budget

    @property
    def lanes(self) -> int:
        """How many lanes `run` starts."""
        return self._settings.lanes

    @property
    def flight_units(self) -> int:
        """The most units that a lane leases in one pull."""
        return self._settings.flight_units

    @property
    def io_threads(self) -> int:
        """Threads that fetch, decode and publish."""
        return self._io.threads

    @property
    def prepare_whole_flight(self) -> bool:
        """Whether a waiting lane prepares more than the first unit of its flight."""
        return self._tools.prepare_whole_flight

    def switch_states(self) -> dict[str, str]:
        """The switches that the worker itself holds, as they are."""
        return {"prepare_flight": "on" if self.prepare_whole_flight else "off"}

    async def run(self) -> Ending:
        """Work until the end.

        Raises:
            StoreError: in a burst, the store stayed out of reach.
        """
        lanes = [asyncio.create_task(self._lane(n), name=f"lane-{n}") for n in range(self._settings.lanes)]
        upkeep = [asyncio.create_task(one) for one in (self._keeper.run(), self._maintain(), self.health.beat())]
        all_lanes = asyncio.create_task(_all_of(lanes, upkeep))
        try:
            return await self._run_to_the_end(all_lanes)
        finally:
            await _cancel([all_lanes, *lanes])
            await self._admission.settle()
            await self._keeper.refund(self._keeper.tokens, self.stop.refund_reason)
            await _cancel(upkeep)
            self._io.close()

    async def _run_to_the_end(self, lanes: asyncio.Task[None]) -> Ending:
        stopping = asyncio.create_task(self.stop.requested.wait())
        await asyncio.wait([lanes, stopping], return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if self.stop.requested.is_set():
            await self._finish_within_drain(lanes)
        if self.stop.quarantine is not None:
            return Ending.QUARANTINED
        if not lanes.done():
            return Ending.OVERRAN
        lanes.result()
        return Ending.DRAINED if self.stop.requested.is_set() else Ending.FINISHED

    async def _finish_within_drain(self, lanes: asyncio.Task[None]) -> None:
        """Give lanes the time of a drain, or none where everything must go back at once."""
        at_once = asyncio.create_task(self.stop.at_once.wait())
        await asyncio.wait([lanes, at_once], timeout=self._settings.drain_seconds, return_when=asyncio.FIRST_COMPLETED)
        at_once.cancel()

    async def _lane(self, lane: int) -> None:
        asked_s = perf_counter()
        while held := await self._admission.next_flight():
            self._tools.on_span(Span(lane, Phase.ADMISSION, asked_s, perf_counter(), len(held), 0.0))
            try:
                await FlightRun(held, self._tools, lane).run()
            except QuarantineError as error:
                self.stop.enter_quarantine(error)
                return
            finally:
                self._admission.flight_ended()
            asked_s = perf_counter()

    async def _maintain(self) -> None:
        """Reap lapsed leases, for ever."""
        while True:
            try:
                await self._store.reap()
                self.health.store_seen = monotonic()
            except StoreError as error:
                log.warning("the store cannot be reached", error=str(error))
            await asyncio.sleep(min(self._lease_seconds / 2, 15.0))


async def _all_of(lanes: Sequence[asyncio.Task[None]], upkeep: Sequence[asyncio.Task[None]]) -> None:
    """Wait for every lane. An error of any ends this, and so does one of upkeep: leases would lapse unseen."""
    working = set(lanes)
    while working:
        ended, _ = await asyncio.wait([*working, *upkeep], return_when=asyncio.FIRST_COMPLETED)
        for one in ended:
            one.result()
        working -= ended


async def _cancel(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.gather(*tasks, return_exceptions=True)
