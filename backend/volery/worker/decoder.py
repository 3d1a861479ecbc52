"""Fetching and decoding a flight's audio on the IO threads, as far as a budget goes."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from typing import TypeVar

import structlog

from volery.units import Audio, Reason, Unit, UnitError, UnitFailed
from volery.worker.budget import DecodeBudget, Hold
from volery.worker.change import Change, deliver
from volery.worker.io_threads import IoThreads, Work
from volery.worker.preparation import AudioLoader, Opened, OverClaim, Preparation
from volery.worker.slots import Slot, bare

log = structlog.get_logger(__name__)

T = TypeVar("T", Opened, Audio)


class Decoder:
    """Opens and decodes slots in the background; whatever goes wrong ends the unit with a reason.

    Every step is announced. A slot that was closed meanwhile returns what it still held.
    """

    def __init__(self, loader: AudioLoader, io: IoThreads, change: Change) -> None:
        self._loader = loader
        self._io = io
        self.change = change

    def open(self, slot: Slot, work: Work) -> None:
        """Open and probe a slot's file, unless that is done or under way."""
        if slot.opened is None and slot.opening is None:
            slot.opening = self._io.submit(work, self._loader.open, slot.unit)
            deliver(slot.opening, partial(self._opened, slot))

    def decode(self, slot: Slot, opened: Opened, hold: Hold, work: Work) -> None:
        """Decode a slot under a granted hold, which passes to the preparation or is given back."""
        slot.decoding = self._io.submit(work, self._loader.load, slot.unit, opened, hold.seconds)
        deliver(slot.decoding, partial(self._decoded, slot, opened, hold))

    def _opened(self, slot: Slot, opening: Future[Opened]) -> None:
        slot.opening = None
        opened = _outcome(slot, opening)
        if opened is not None and slot.is_closed:
            opened.file.close()
        elif opened is not None:
            slot.opened = opened
            slot.seconds = slot.seconds if slot.seconds is not None else opened.seconds
        self.change.announce()

    def _decoded(self, slot: Slot, opened: Opened, hold: Hold, decoding: Future[Audio]) -> None:
        slot.opened = slot.hold = slot.decoding = None
        try:
            audio = _outcome(slot, decoding)
        except OverClaim:
            audio = None
            slot.seconds = self._loader.max_seconds  # the next decode sets aside the most that a unit may have
            slot.give_up_audio()
        if audio is None or slot.is_closed:
            hold.close()
        else:
            slot.timings["fetch_decode"] = opened.spent_s
            slot.preparation = Preparation(audio, hold)
        self.change.announce()


class Feed:
    """Decodes slots of one flight within a budget: never more than one of them stands in its line.

    In order, a slot is not begun before those ahead of it; otherwise whichever is open comes first.
    A slot larger than the whole budget is passed over.
    """

    def __init__(
        self,
        slots: Sequence[Slot],
        budget: DecodeBudget,
        decoder: Decoder,
        fetch: Work,
        decode: Work,
        *,
        in_order: bool,
    ) -> None:
        self._slots = slots
        self._budget = budget
        self._decoder = decoder
        self._fetch, self._decode = fetch, decode
        self._in_order = in_order

    def pump(self) -> None:
        """Begin whatever can be begun now."""
        for slot in self._todo():
            self._decoder.open(slot, self._fetch)
        while (candidate := self._next()) is not None:
            slot, opened, seconds = candidate
            slot.hold = slot.hold or self._budget.ask(seconds, self._decoder.change.announce)
            if not slot.hold.is_granted:
                return
            self._decoder.decode(slot, opened, slot.hold, self._decode)

    def is_settled(self) -> bool:
        """Whether all that fits the budget is decoded or has ended."""
        return all(slot.preparation is not None or self._is_too_large(slot) for slot in self._slots if slot.is_open)

    def is_held_up(self) -> bool:
        """Whether the budget has no room for the next slot and nothing is being decoded."""
        in_line = any(slot.hold is not None and not slot.hold.is_granted for slot in self._slots)
        return in_line and not any(slot.decoding is not None for slot in self._slots)

    def _todo(self) -> list[Slot]:
        return [slot for slot in self._slots if slot.is_open and not slot.is_started and not self._is_too_large(slot)]

    def _next(self) -> tuple[Slot, Opened, float] | None:
        todo = self._todo()
        in_line = [slot for slot in todo if slot.hold is not None]
        for slot in in_line or todo:
            if slot.opened is not None and slot.seconds is not None:
                return slot, slot.opened, slot.seconds
            if self._in_order:
                return None
        return None

    def _is_too_large(self, slot: Slot) -> bool:
        return slot.seconds is not None and not self._budget.fits(slot.seconds)


def _outcome(slot: Slot, future: Future[T]) -> T | None:
    """What an IO thread came to; an error ends the slot, unless it was given up meanwhile."""
    if future.cancelled():
        return None
    error = future.exception()
    if isinstance(error, OverClaim):
        raise error
    if error is None:
        return future.result()
    if slot.is_open:
        slot.outcome = bare(error) if isinstance(error, UnitError) else _unexpected(slot.unit, error)
        slot.give_up_audio()
    return None


def _unexpected(unit: Unit, error: BaseException) -> UnitFailed:
    log.error("unexpected failure of a fetch or decode", key=unit.key, exc_info=error)
    return UnitFailed(Reason.AUDIO_UNAVAILABLE, f"{type(error).__name__}: {error}")
