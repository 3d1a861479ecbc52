"""One flight on its way through a lane: prepare, GPU section, publication."""

from __future__ import annotations

import asyncio
import contextlib
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from time import perf_counter

import structlog

from volery import metrics
from volery.units import (
    PreparedUnit,
    QuarantineError,
    Reason,
    Transcript,
    UnitError,
    UnitFailed,
)
from volery.worker.budget import DecodeBudget
from volery.worker.gpu import GpuThread
from volery.worker.health import Health
from volery.worker.leases import HeldLease, LeaseKeeper
from volery.worker.preparation import AudioLoader
from volery.worker.publication import Publisher
from volery.worker.slots import Decoder, Slot
from volery.worker.stop import Stop
from volery.worker.timeline import OnSpan, Phase, Span

log = structlog.get_logger(__name__)

Process = Callable[[Sequence[PreparedUnit]], Sequence[Transcript | UnitError]]
"""Works through a group on the GPU thread: an outcome for each unit, in the group's order."""


@dataclass(frozen=True)
class Tools:
    """What all flights of a worker share."""

    process: Process
    gpu: GpuThread
    gpu_lock: asyncio.Lock
    health: Health
    budget: DecodeBudget
    section_budget: DecodeBudget
    loader: AudioLoader
    io: Executor
    keeper: LeaseKeeper
    publisher: Publisher
    stop: Stop
    prepare_whole_flight: bool
    on_span: OnSpan


class FlightRun:
    """Takes one flight from its leases to their ends."""

    def __init__(self, held: Sequence[HeldLease], tools: Tools, lane: int) -> None:
        self._tools = tools
        self._lane = lane
        self._slots = [Slot(one) for one in held]
        self._changed = asyncio.Event()
        self._gpu_wanted = asyncio.Event()
        self._decoder = Decoder(tools.loader, tools.io, self._changed.set)

    async def run(self) -> None:
        """Work the flight off. Whatever ends it early, every share of a budget is returned.

        Raises:
            QuarantineError: the process may no longer be trusted; nothing of the group is published.
        """
        try:
            if await self._reach_gpu():
                await self._gpu_section()
            await self._refund_unfinished()
            began = perf_counter()
            await self._tools.publisher.publish(self._slots)
            self._report(Phase.PUBLICATION, began, self._slots)
        finally:
            for slot in self._slots:
                slot.close()

    def _report(self, phase: Phase, began_s: float, slots: Sequence[Slot]) -> None:
        audio_s = sum(slot.audio_seconds for slot in slots)
        self._tools.on_span(Span(self._lane, phase, began_s, perf_counter(), len(slots), audio_s))

    # --- before the GPU ---

    async def _reach_gpu(self) -> bool:
        """Prepare while waiting; True with the GPU lock held, False where there is nothing to do with it."""
        async with _background(self._watch_lost()), _background(self._prepare()):
            await _first_of(self._gpu_wanted.wait(), self._tools.stop.requested.wait())
            if self._is_over():
                return False
            started = perf_counter()
            if not await self._acquire_gpu():
                return False
            waited = perf_counter() - started
        self._report(Phase.GPU_WAIT, started, self._slots)
        metrics.STAGE_SECONDS.labels("gpu_wait").observe(waited)
        for slot in self._slots:
            slot.timings["gpu_wait"] = waited
        return True

    async def _acquire_gpu(self) -> bool:
        """Wait for the GPU or for a drain, whichever comes first."""
        acquiring: asyncio.Task[bool] = asyncio.create_task(self._tools.gpu_lock.acquire())
        try:
            await _first_of(asyncio.shield(acquiring), self._tools.stop.requested.wait())
            if acquiring.done() and not self._is_over():
                return True
        except BaseException:
            await self._give_up_gpu(acquiring)
            raise
        await self._give_up_gpu(acquiring)
        return False

    async def _give_up_gpu(self, acquiring: asyncio.Task[bool]) -> None:
        acquiring.cancel()
        await asyncio.wait([acquiring])
        if not acquiring.cancelled():
            self._tools.gpu_lock.release()

    def _is_over(self) -> bool:
        return self._tools.stop.requested.is_set() or not any(slot.is_open for slot in self._slots)

    async def _prepare(self) -> None:
        """Decode leading units within the shared budget; then, or when the budget is full, ask for the GPU."""
        began = perf_counter()
        try:
            for slot in self._slots if self._tools.prepare_whole_flight else self._slots[:1]:
                self._decoder.begin_opening(slot)
            for slot in self._slots:
                if not await self._prepare_slot(slot):
                    break
            await _settled(self._slots)
        finally:
            self._report(Phase.PREPARATION, began, [slot for slot in self._slots if slot.preparation])
            self._gpu_wanted.set()

    async def _prepare_slot(self, slot: Slot) -> bool:
        """Start preparing one unit; whether the next may be prepared too."""
        opened = await self._decoder.opened(slot) if slot.is_open else None
        if opened is None or slot.seconds is None:
            return True
        budget = self._tools.budget
        if not budget.fits(slot.seconds):
            return False
        if not budget.is_free_for(slot.seconds):
            await _settled(self._slots)
            self._gpu_wanted.set()
        hold = await budget.acquire(slot.seconds)
        if not slot.is_open:
            hold.close()
            return True
        self._decoder.start(slot, opened, hold)
        return self._tools.prepare_whole_flight

    async def _watch_lost(self) -> None:
        """Drop units whose lease is lost while the flight waits; the rest go on."""
        waiting = {asyncio.create_task(slot.held.lost.wait()): slot for slot in self._slots}
        try:
            while waiting:
                lost, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for task in lost:
                    waiting.pop(task).close()
        finally:
            for task in waiting:
                task.cancel()

    # --- with the GPU ---

    async def _gpu_section(self) -> None:
        """Work through the flight's groups under the GPU lock, which the caller acquired."""
        began = perf_counter()
        try:
            with metrics.stage("worker_flight"):
                async with _background(self._feed()) as feeding:
                    await self._work_through_groups(feeding)
        finally:
            for slot in self._slots:
                slot.give_up_audio()
            self._tools.gpu_lock.release()
            self._report(Phase.GPU_SECTION, began, [slot for slot in self._slots if slot.outcome])

    async def _work_through_groups(self, feeding: asyncio.Task[None]) -> None:
        prepared = {slot for slot in self._slots if slot.is_started}
        while any(slot.is_open for slot in self._slots):
            self._changed.clear()
            self._drop_lost()
            group = [slot for slot in self._slots if slot.is_ready]
            if not group:
                await self._wait_for_audio(feeding)
                continue
            await self._dispatch(group)
            for slot in set(group) - prepared:
                slot.give_up_audio()

    async def _wait_for_audio(self, feeding: asyncio.Task[None]) -> None:
        if feeding.done():
            feeding.result()
        if any(slot.is_open for slot in self._slots):
            await _first_of(self._changed.wait(), asyncio.shield(feeding))

    def _drop_lost(self) -> None:
        for slot in self._slots:
            if slot.is_open and not slot.held.holds:
                self._tools.keeper.lose(slot.held)
                slot.close()

    async def _feed(self) -> None:
        """Decode, in order and within the section's budget, what was not prepared."""
        while waiting := [slot for slot in self._slots if slot.is_open and not slot.is_started]:
            for slot in waiting:
                self._decoder.begin_opening(slot)
            for slot in waiting:
                await self._feed_slot(slot)
            await _settled(self._slots)

    async def _feed_slot(self, slot: Slot) -> None:
        opened = await self._decoder.opened(slot)
        if opened is None or slot.seconds is None or not slot.is_open:
            return
        hold = await self._tools.section_budget.acquire(slot.seconds)
        self._decoder.start(slot, opened, hold)

    async def _dispatch(self, group: Sequence[Slot]) -> None:
        """Hand one group to the GPU thread. Where it fails as a whole, each unit is tried alone."""
        units = [PreparedUnit(slot.unit, slot.preparation.audio) for slot in group if slot.preparation]
        try:
            outcomes = await self._on_gpu(units)
        except QuarantineError:
            raise
        except Exception as error:
            log.error("a group failed", units=len(group), error=type(error).__name__, at=_place(error))
            if len(group) > 1:
                for slot in group:
                    await self._dispatch([slot])
                return
            outcomes = [UnitFailed(Reason.SPEECH_FAILED, f"{type(error).__name__} at {_place(error)}")]
        for slot, prepared, outcome in zip(group, units, outcomes, strict=True):
            slot.outcome = outcome
            slot.info = prepared.audio.info

    async def _on_gpu(self, units: Sequence[PreparedUnit]) -> Sequence[Transcript | UnitError]:
        started = perf_counter()
        audio_s = sum(one.audio.duration_s for one in units)
        self._tools.health.group_begins(audio_s)
        try:
            return await self._tools.gpu.run(partial(self._tools.process, units))
        finally:
            self._tools.health.group_ends()
            metrics.GPU_BUSY_SECONDS.inc(perf_counter() - started)
            self._tools.on_span(Span(self._lane, Phase.GROUP, started, perf_counter(), len(units), audio_s))

    async def _refund_unfinished(self) -> None:
        """Give back, uncharged, what a drain kept from the GPU."""
        unfinished = [slot for slot in self._slots if slot.is_open]
        for slot in unfinished:
            slot.close()
        await self._tools.keeper.refund([slot.held.token for slot in unfinished], self._tools.stop.refund_reason)


def _place(error: BaseException) -> str:
    """Where an exception came from. Its own text is left out: it may hold what was said."""
    return " ".join(f"{frame.name}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)[-3:])


async def _settled(slots: Sequence[Slot]) -> None:
    """Wait until no decode is under way."""
    if decoding := [slot.decoding for slot in slots if slot.decoding is not None]:
        await asyncio.wait(decoding)


async def _first_of(*waits: Awaitable[object]) -> None:
    """Wait until one of several is done; the others are cancelled."""
    tasks = [asyncio.ensure_future(one) for one in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


@contextlib.asynccontextmanager
async def _background(work: Coroutine[None, None, None]) -> AsyncIterator[asyncio.Task[None]]:
    """Run a coroutine beside the block and end it with the block, raising what it raised."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            task.result()
