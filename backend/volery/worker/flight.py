"""One flight on its way through a lane: prepare, GPU section, publication."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter

from volery import metrics
from volery.worker.budget import DecodeBudget
from volery.worker.change import Change
from volery.worker.decoder import Decoder, Feed
from volery.worker.gpu import GpuLock, Turn
from volery.worker.io_threads import IoThreads, Work
from volery.worker.leases import HeldLease, LeaseKeeper
from volery.worker.preparation import AudioLoader
from volery.worker.publication import Publisher
from volery.worker.section import GpuSection, GroupCall, SectionTools
from volery.worker.slots import Slot, drop_lost
from volery.worker.stop import Stop
from volery.worker.timeline import OnSpan, Phase, Span


@dataclass(frozen=True)
class Tools:
    """What all flights of a worker share."""

    gpu_lock: GpuLock
    section: SectionTools
    budget: DecodeBudget
    loader: AudioLoader
    io: IoThreads
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
        self._change = Change()
        for one in held:
            one.on_lost = self._change.announce
        self._decoder = Decoder(tools.loader, tools.io, self._change)
        leading = self._slots if tools.prepare_whole_flight else self._slots[:1]
        self._preparing = Feed(
            leading, tools.budget, self._decoder, fetch=Work.FETCH, decode=Work.DECODE, in_order=True
        )
        self._began_s = self._asked_s = perf_counter()
        self._is_prepared = False
        self._turn: Turn | None = None

    async def run(self) -> None:
        """Work the flight off. Whatever ends it early, every share of a budget is returned.

        Raises:
            QuarantineError: the process may no longer be trusted; nothing of the group is published.
        """
        try:
            with self._tools.stop.telling(self._change.announce):
                await self._use_gpu()
            await self._refund_unfinished()
            await self._publish()
        finally:
            for slot in self._slots:
                slot.close()

    async def _use_gpu(self) -> None:
        """Prepare, wait for the GPU and work through the flight; then its audio and the lock go back."""
        try:
            if await self._reach_gpu():
                await self._gpu_section()
        finally:
            for slot in self._slots:
                slot.give_up_audio()
            if self._turn is not None:
                self._turn.close()

    # --- before the GPU ---

    async def _reach_gpu(self) -> bool:
        """Prepare while waiting; True with the GPU lock held, False where there is nothing to do with it.

        As long as this lasts, units whose lease is lost are dropped. The last look at the leases
        and for a drain is the one that returns: nothing comes between it and the first dispatch.
        """
        while not self._is_over():
            if self._has_gpu:
                self._report_preparation()
                return True
            self._preparing.pump()
            self._ask_for_gpu()
            if not self._has_gpu:
                await self._change.wait()
        return False

    @property
    def _has_gpu(self) -> bool:
        return self._turn is not None and self._turn.has_gpu

    def _is_over(self) -> bool:
        drop_lost(self._slots, self._tools.keeper)
        return self._tools.stop.requested.is_set() or not any(slot.is_open for slot in self._slots)

    def _ask_for_gpu(self) -> None:
        """Stand in line for the GPU once all that may be prepared is, or the budget lets no more be prepared.

        Not sooner, even where the GPU is free and some units are ready: that would gain no more than
        the GPU seconds of those units, and while the others are fetched the GPU would be billed and
        every other lane kept out. A lane with nothing ready only waits for the budget: those who hold
        it reach the GPU without this lane's doing.
        """
        settled = self._preparing.is_settled()
        if settled:
            self._report_preparation()
        held_up = self._preparing.is_held_up() and any(slot.is_ready for slot in self._slots)
        if self._turn is None and (settled or held_up):
            self._asked_s = perf_counter()
            self._turn = self._tools.gpu_lock.ask(self._change.announce)

    # --- with the GPU ---

    async def _gpu_section(self) -> None:
        began_s = perf_counter()
        waited_s = began_s - self._asked_s
        metrics.STAGE_SECONDS.labels("gpu_wait").observe(waited_s)
        self._report(Phase.GPU_WAIT, self._asked_s, self._slots)
        for slot in self._slots:
            slot.timings["gpu_wait"] = waited_s
        try:
            await GpuSection(self._slots, self._tools.section, self._decoder, self._on_group).run()
        finally:
            metrics.STAGE_SECONDS.labels("worker_flight").observe(perf_counter() - began_s)
            self._report(Phase.GPU_SECTION, began_s, [slot for slot in self._slots if slot.outcome is not None])

    # --- after the GPU ---

    async def _refund_unfinished(self) -> None:
        """Give back, uncharged, what a drain kept from the GPU."""
        unfinished = [slot for slot in self._slots if slot.is_open]
        for slot in unfinished:
            slot.close()
        await self._tools.keeper.refund([slot.held.token for slot in unfinished], self._tools.stop.refund_reason)

    async def _publish(self) -> None:
        began_s = perf_counter()
        published = await self._tools.publisher.publish(self._slots)
        self._report(Phase.PUBLICATION, began_s, published)

    # --- what is told ---

    def _report_preparation(self) -> None:
        """Tell, once, how long preparation took."""
        if not self._is_prepared:
            self._is_prepared = True
            self._report(Phase.PREPARATION, self._began_s, [slot for slot in self._slots if slot.preparation])

    def _on_group(self, call: GroupCall) -> None:
        self._tools.on_span(Span(self._lane, Phase.GROUP, call.began_s, call.ended_s, len(call.units), call.audio_s))

    def _report(self, phase: Phase, began_s: float, slots: Sequence[Slot]) -> None:
        audio_s = sum(slot.audio_seconds for slot in slots)
        self._tools.on_span(Span(self._lane, phase, began_s, perf_counter(), len(slots), audio_s))
