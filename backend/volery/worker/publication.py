"""Publication: a unit's result is written under its lease token's name, then committed under the token."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import structlog

from volery import metrics
from volery.artifacts.store import ResultStore
from volery.queue.store import JobStore, Publication
from volery.results import UnitResult
from volery.units import Reason, ResultClass, StoreError, Transcript, UnitError, UnitFailed, UnitRejected, UnitState
from volery.worker.document import result_document
from volery.worker.io_threads import IoThreads, Work
from volery.worker.leases import LeaseKeeper
from volery.worker.slots import Slot

log = structlog.get_logger(__name__)

_COMMIT_RETRY_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class UnitEnded:
    """What this process did to one unit; `ready` means that it failed and will be tried again."""

    key: str
    state: UnitState
    reason: Reason | None = None
    error: str | None = None
    result_class: ResultClass | None = None
    duration_s: float = 0.0


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
    ) -> None:
        self._store = store
        self._results = results
        self._keeper = keeper
        self._io = io
        self._switches = switches
        self._on_ended = on_ended

    async def publish(self, slots: Sequence[Slot]) -> Sequence[Slot]:
        """Publish the slots that have an outcome and whose lease still holds; which they were."""
        mine = [slot for slot in slots if slot.outcome is not None and self._keeper.check(slot.held)]
        transcribed = [slot for slot in mine if isinstance(slot.outcome, Transcript)]
        written = await asyncio.gather(*(self._write(slot) for slot in transcribed))
        await self._commit([one for one in written if one is not None])
        await asyncio.gather(*(self._end(slot) for slot in mine if isinstance(slot.outcome, UnitError)))
        return mine

    async def _write(self, slot: Slot) -> tuple[Slot, Publication] | None:
        transcript, info = slot.outcome, slot.info
        if not isinstance(transcript, Transcript) or info is None:
            return None
        document = partial(result_document, slot.held.lease, info, transcript, slot.timings, self._switches())
        write = partial(_timed_write, self._results, slot.held.token, document)
        try:
            artifact = await asyncio.wrap_future(self._io.submit(Work.PUBLISH, write))
        except UnitError as error:
            slot.outcome = error
            return None
        except Exception as error:
            log.error("unexpected failure of a publication", key=slot.unit.key, exc_info=error)
            slot.outcome = UnitFailed(Reason.PUBLISH_FAILED, f"{type(error).__name__}: {error}")
            return None
        return slot, Publication(slot.held.token, artifact, transcript.result_class, info.duration_s)

    async def _commit(self, written: Sequence[tuple[Slot, Publication]]) -> None:
        """Commit results in one batch, trying again while the store is away and the leases hold."""
        for slot, _ in written:
            slot.held.settling = True
        while held := [(slot, publication) for slot, publication in written if self._keeper.check(slot.held)]:
            try:
                committed = await self._store.complete([publication for _, publication in held])
            except StoreError as error:
                log.warning("commit failed; trying again while the leases hold", error=str(error))
                await asyncio.sleep(_COMMIT_RETRY_SECONDS)
                continue
            for slot, publication in held:
                self._committed(slot, publication, publication.token in committed)
            return

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
