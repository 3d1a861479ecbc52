"""The GPU section: one flight's groups, one after another, while the next one decodes."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter

import structlog

from volery import metrics
from volery.units import PreparedUnit, QuarantineError, Reason, Transcript, UnitError, UnitFailed
from volery.worker.budget import DecodeBudget
from volery.worker.change import deliver
from volery.worker.decoder import Decoder, Feed
from volery.worker.gpu import GpuThread
from volery.worker.health import Health
from volery.worker.io_threads import Work
from volery.worker.leases import LeaseKeeper
from volery.worker.slots import Slot, bare, drop_lost

log = structlog.get_logger(__name__)

Process = Callable[[Sequence[PreparedUnit]], Sequence[Transcript | UnitError]]
"""Works through a group on the GPU thread: an outcome for each unit, in the group's order."""


@dataclass(slots=True)
class GroupCall:
    """One group on the GPU thread, and when that began and ended in `perf_counter` seconds."""

    process: Process
    units: Sequence[PreparedUnit]
    began_s: float = 0.0
    ended_s: float = 0.0

    @property
    def audio_s(self) -> float:
        """Length of the group in audio-seconds."""
        return sum(one.audio.duration_s for one in self.units)

    def __call__(self) -> Sequence[Transcript | UnitError]:
        """Work through the group; for the GPU thread."""
        self.began_s = perf_counter()
        try:
            return self.process(self.units)
        finally:
            self.ended_s = perf_counter()


@dataclass(frozen=True)
class SectionTools:
    """What the GPU sections of a worker share."""

    process: Process
    gpu: GpuThread
    health: Health
    budget: DecodeBudget
    keeper: LeaseKeeper


class GpuSection:
    """Works through a flight, under the GPU lock that its lane holds.

    The section's budget counts all that is decoded here, the groups on the GPU included. A group is
    at most half of it, or one unit, so that the next can decode meanwhile.
    """

    def __init__(
        self, slots: Sequence[Slot], tools: SectionTools, decoder: Decoder, on_group: Callable[[GroupCall], None]
    ) -> None:
        self._slots = slots
        self._tools = tools
        self._change = decoder.change
        self._on_group = on_group
        self._feed = Feed(slots, tools.budget, decoder, fetch=Work.SECTION, decode=Work.SECTION, in_order=False)
        self._prepared = [slot for slot in slots if slot.is_started]
        self._on_gpu: Sequence[Slot] = ()

    async def run(self) -> None:
        """Work until every unit has an outcome, or lost its lease.

        Raises:
            QuarantineError: the process may no longer be trusted.
        """
        self._count_prepared()
        while self._goes_on():
            if group := self._next_group():
                await self._work_off(group)
            else:
                await self._change.wait()

    def _count_prepared(self) -> None:
        for slot in self._slots:
            slot.leave_line()
        for slot in self._prepared:
            if slot.is_open and slot.seconds is not None:
                slot.section_share = self._tools.budget.ask(slot.seconds, self._change.announce)

    def _goes_on(self) -> bool:
        """Drop units whose lease is lost, except those on the GPU, and feed; whether anything is left to do."""
        drop_lost([slot for slot in self._slots if slot not in self._on_gpu], self._tools.keeper)
        self._feed.pump()
        return any(slot.is_open for slot in self._slots)

    def _next_group(self) -> list[Slot]:
        """What is ready, as far as a group goes."""
        group: list[Slot] = []
        seconds = 0.0
        for slot in (slot for slot in self._slots if slot.is_ready):
            seconds += slot.audio_seconds
            if group and seconds > self._tools.budget.limit / 2:
                break
            group.append(slot)
        return group

    async def _work_off(self, group: Sequence[Slot]) -> None:
        """Hand one group to the GPU thread. Where it fails as a whole, each unit is tried alone."""
        outcomes = await self._process(group)
        if outcomes is None:
            for slot in group:
                if self._goes_on() and slot.is_ready:
                    await self._work_off([slot])
            return
        for slot, outcome in zip(group, outcomes, strict=True):
            self._end(slot, outcome)

    def _end(self, slot: Slot, outcome: Transcript | UnitError) -> None:
        """Note an outcome. Audio decoded here goes back now, a preparation when the section ends."""
        slot.outcome = bare(outcome) if isinstance(outcome, UnitError) else outcome
        if slot.preparation is not None:
            slot.info = slot.preparation.audio.info
        if slot.section_share is None:
            slot.give_up_audio()
        else:
            slot.section_share.close()

    async def _process(self, group: Sequence[Slot]) -> Sequence[Transcript | UnitError] | None:
        """Outcomes of a group; None where it failed as a whole and may be taken apart."""
        units = [PreparedUnit(slot.unit, slot.preparation.audio) for slot in group if slot.preparation]
        try:
            return await self._on_gpu_thread(group, units)
        except QuarantineError:
            raise
        except Exception as error:
            log.error("a group failed", units=len(group), error=type(error).__name__, at=_place(error))
            if len(group) > 1:
                return None
            return [UnitFailed(Reason.SPEECH_FAILED, f"{type(error).__name__} at {_place(error)}")]

    async def _on_gpu_thread(
        self, group: Sequence[Slot], units: Sequence[PreparedUnit]
    ) -> Sequence[Transcript | UnitError]:
        call = GroupCall(self._tools.process, units)
        future = self._tools.gpu.submit(call)
        deliver(future, lambda _: self._change.announce())
        self._tools.health.group_begins(call.audio_s)
        self._on_gpu = group
        try:
            while not future.done():
                self._goes_on()
                await self._change.wait()
            return future.result()
        finally:
            del future  # an exception of its own would keep it, and the group's audio, until the next collection
            self._on_gpu = ()
            self._tools.health.group_ends()
            self._tell(call)

    def _tell(self, call: GroupCall) -> None:
        if call.ended_s:
            metrics.GPU_BUSY_SECONDS.inc(call.ended_s - call.began_s)
            self._on_group(call)


def _place(error: BaseException) -> str:
    """Where an exception came from. Its own text is left out: it may hold what was said."""
    return " ".join(f"{frame.name}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)[-3:])
