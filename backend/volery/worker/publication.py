"""Publication: a unit's result is written under its lease token's name, then committed under the token."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from time import monotonic

import structlog

from volery import metrics
from volery.artifacts.store import ResultStore
from volery.queue.store import JobStore, Publication
from volery.results import UnitResult
from volery.units import (
    ArtifactsUnavailable,
    Reason,
    RefundReason,
    ResultClass,
    StoreError,
    Transcript,
    Unit,
    UnitError,
    UnitFailed,
    UnitRejected,
    UnitState,
)
from volery.worker.document import result_document
from volery.worker.io_threads import IoThreads, Work
from volery.worker.leases import LeaseKeeper
from volery.worker.slots import Slot
from volery.worker.stop import Stop

log = structlog.get_logger(__name__)

_COMMIT_RETRY_SECONDS = 0.5
_WRITE_RETRY_SECONDS = (1.0, 30.0)
"""First and longest wait before a result is written again, or another flight's audio is tried."""

PATIENCE_SECONDS = 300.0
BURST_PATIENCE_SECONDS = 30.0
"""How long a lane waits for a place that takes results; in a burst somebody waits for the lane."""


@dataclass(frozen=True, slots=True)
class Published:
    """A unit whose commit held, and the name of its result."""

    unit: Unit
    artifact: str


@dataclass(frozen=True, slots=True)
class UnitEnded:
    """What this process did to one unit.

    `ready` means that it failed and will be tried again, `leased` that its result cannot be written
    yet and is waited for. `published` is there where it is done.
    """

    key: str
    state: UnitState
    reason: Reason | None = None
    error: str | None = None
    result_class: ResultClass | None = None
    duration_s: float = 0.0
    published: Published | None = None


OnEnded = Callable[[UnitEnded], None]


class Publisher:
    """Writes and commits what a flight came to. Nothing is published under a lease that is gone."""

    def __init__(
        self,
        store: JobStore,
        results: ResultStore,
        keeper: LeaseKeeper,
        io: IoThreads,
        switches: Callable[[], dict[str, str]],
        on_ended: OnEnded,
        stop: Stop,
        *,
        burst: bool,
    ) -> None:
        self._store = store
        self._results = results
        self._keeper = keeper
        self._io = io
        self._switches = switches
        self._on_ended = on_ended
        self._stop = stop
        self._burst = burst
        self._pause_s = _WRITE_RETRY_SECONDS[0]

    async def publish(self, slots: Sequence[Slot]) -> Sequence[Slot]:
        """Publish the slots that have an outcome and whose lease still holds; which they were.

        Raises:
            StoreError: in a burst, the place for results stayed out of use, or audio is out of reach.
        """
        mine = [slot for slot in slots if slot.outcome is not None and self._keeper.check(slot.held)]
        transcribed = [slot for slot in mine if isinstance(slot.outcome, Transcript)]
        written = await asyncio.gather(*(self._write(slot) for slot in transcribed))
        await self._commit([one for one in written if one is not None])
        out_of_reach = [slot for slot in mine if isinstance(slot.outcome, ArtifactsUnavailable)]
        failed = [slot for slot in mine if isinstance(slot.outcome, UnitError) and slot not in out_of_reach]
        await asyncio.gather(*(self._end(slot) for slot in failed))
        await self._give_back_unread(out_of_reach)
        return [slot for slot in mine if slot not in out_of_reach]

    async def _give_back_unread(self, slots: Sequence[Slot]) -> None:
        """Give back, uncharged, units whose audio this process cannot have, whichever unit it is; then pause."""
        if not slots:
            self._pause_s = _WRITE_RETRY_SECONDS[0]
            return
        await self._keeper.refund([slot.held.token for slot in slots], self._reason_to_give_back)
        message = str(slots[0].outcome)
        if self._burst and not self._stop.requested.is_set():
            raise StoreError(f"audio cannot be read: {message}")
        log.warning("audio is out of reach; pausing", units=len(slots), seconds=self._pause_s, error=message)
        await self._wait(self._pause_s)
        self._pause_s = min(2 * self._pause_s, _WRITE_RETRY_SECONDS[1])

    async def _wait(self, seconds: float) -> None:
        """Wait, unless the worker is told to stop."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stop.requested.wait()

    @property
    def _reason_to_give_back(self) -> RefundReason:
        return self._stop.refund_reason if self._stop.requested.is_set() else RefundReason.ARTIFACTS

    async def _write(self, slot: Slot) -> tuple[Slot, Publication] | None:
        transcript, info = slot.outcome, slot.info
        if not isinstance(transcript, Transcript) or info is None:
            return None
        document = partial(result_document, slot.held.lease, info, transcript, slot.timings, self._switches())
        write = partial(_timed_write, self._results, slot.held.token, document)
        try:
            artifact = await self._write_with_patience(slot, write)
        except UnitError as error:
            slot.outcome = error
            return None
        except StoreError:
            raise
        except Exception as error:
            log.error("unexpected failure of a publication", key=slot.unit.key, exc_info=error)
            slot.outcome = UnitFailed(Reason.PUBLISH_FAILED, f"{type(error).__name__}: {error}")
            return None
        if artifact is None:
            return None
        return slot, Publication(slot.held.token, artifact, transcript.result_class, info.duration_s)

    async def _write_with_patience(self, slot: Slot, write: Callable[[], str]) -> str | None:
        """The artifact's name; None where the unit was given back, or its lease lost, before it could be written.

        Where results cannot be written at all, the lane waits: transcribing more would be for
        nothing, and it is no unit's fault.
        """
        told = False
        give_up_at = monotonic() + (BURST_PATIENCE_SECONDS if self._burst else PATIENCE_SECONDS)
        wait, longest = _WRITE_RETRY_SECONDS
        while self._keeper.check(slot.held):
            try:
                return await asyncio.wrap_future(self._io.submit(Work.PUBLISH, write))
            except ArtifactsUnavailable as error:
                if self._stop.requested.is_set() or monotonic() >= give_up_at:
                    await self._give_up(slot, error)
                    return None
                log.warning("a result cannot be written; trying again", key=slot.unit.key, error=error.message)
                if not told:
                    told = True
                    self._on_ended(UnitEnded(slot.unit.key, UnitState.LEASED, error.reason, error.message))
            await self._wait(wait)
            wait = min(2 * wait, longest)
        return None

    async def _give_up(self, slot: Slot, error: ArtifactsUnavailable) -> None:
        """Give the unit back uncharged: another worker may reach the place for results."""
        if self._burst and not self._stop.requested.is_set():
            raise StoreError(f"results cannot be written: {error.message}")
        slot.outcome = None
        await self._keeper.refund([slot.held.token], self._reason_to_give_back)

    async def _commit(self, written: Sequence[tuple[Slot, Publication]]) -> None:
        """Commit results in one batch, trying again while the store is away and the leases hold."""
        for slot, _ in written:
            slot.held.settling = True
        is_first = True
        while held := [(slot, publication) for slot, publication in written if self._keeper.check(slot.held)]:
            try:
                committed = await self._store.complete([publication for _, publication in held])
                if not is_first:
                    committed |= await self._committed_unheard(held, committed)
            except StoreError as error:
                is_first = False
                log.warning("commit failed; trying again while the leases hold", error=str(error))
                await asyncio.sleep(_COMMIT_RETRY_SECONDS)
                continue
            for slot, publication in held:
                self._committed(slot, publication, publication.token in committed)
            return

    async def _committed_unheard(
        self, held: Sequence[tuple[Slot, Publication]], committed: frozenset[str]
    ) -> frozenset[str]:
        """Leases whose commit took earlier, though its answer was lost: their units name the results."""
        unheard = set()
        for slot, publication in held:
            if publication.token not in committed:
                record = await self._store.get(slot.unit.key)
                if record is not None and record.artifact == publication.artifact:
                    unheard.add(publication.token)
        return frozenset(unheard)

    def _committed(self, slot: Slot, publication: Publication, took: bool) -> None:
        if not took:
            self._keeper.lose(slot.held)
            return
        self._keeper.let_go([slot.held.token])
        metrics.AUDIO_SECONDS.inc(publication.duration_s)
        self._ended(
            UnitEnded(
                slot.unit.key,
                UnitState.DONE,
                result_class=publication.result_class,
                duration_s=publication.duration_s,
                published=Published(slot.unit, publication.artifact),
            )
        )

    async def _end(self, slot: Slot) -> None:
        """Reject a unit, or charge it an attempt."""
        error = slot.outcome
        if not isinstance(error, UnitError):
            return
        slot.held.settling = True
        while self._keeper.check(slot.held):
            try:
                state = await self._end_in_store(slot.held.token, error)
            except StoreError as trouble:
                log.warning("could not end a unit; trying again while its lease holds", error=str(trouble))
                await asyncio.sleep(_COMMIT_RETRY_SECONDS)
                continue
            if state is None:
                self._keeper.lose(slot.held)
                return
            self._keeper.let_go([slot.held.token])
            self._ended(UnitEnded(slot.unit.key, state, error.reason, error.message))
            return

    async def _end_in_store(self, token: str, error: UnitError) -> UnitState | None:
        if isinstance(error, UnitRejected):
            rejected = await self._store.reject(token, error.reason, error.message)
            return UnitState.REJECTED if rejected else None
        return await self._store.fail(token, error.reason, error.message)

    def _ended(self, ended: UnitEnded) -> None:
        outcome = "retry" if ended.state is UnitState.READY else ended.state.value
        metrics.UNITS.labels(outcome, ended.result_class or "").inc()
        log.info("unit ended", key=ended.key, outcome=outcome, reason=ended.reason, result_class=ended.result_class)
        self._on_ended(ended)


def _timed_write(results: ResultStore, token: str, document: Callable[[], UnitResult]) -> str:
    """Made here, on an IO thread: hours of words would keep the event loop, and with it the GPU, waiting."""
    with metrics.stage("publish"):
        return results.write(token, document().to_json())
