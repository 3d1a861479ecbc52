"""A flight's units on their way through a lane, and the decoding of their audio."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter

import structlog

from volery.units import Audio, AudioInfo, Reason, Transcript, Unit, UnitError, UnitFailed
from volery.worker.budget import Hold
from volery.worker.leases import HeldLease
from volery.worker.preparation import AudioLoader, Opened, OverClaim, Preparation

log = structlog.get_logger(__name__)


@dataclass(eq=False)
class Slot:
    """One unit of a flight: its lease, its audio while it has any, and how it ended.

    `seconds` is the share of a budget that its audio needs, known once its file is opened.
    """

    held: HeldLease
    opening: asyncio.Task[Opened] | None = None
    decoding: asyncio.Task[None] | None = None
    preparation: Preparation | None = None
    outcome: Transcript | UnitError | None = None
    seconds: float | None = None
    info: AudioInfo | None = None
    timings: dict[str, float] = field(default_factory=dict)

    @property
    def unit(self) -> Unit:
        """The slot's unit."""
        return self.held.unit

    @property
    def audio_seconds(self) -> float:
        """Length of its audio, once that has been decoded."""
        if self.preparation is not None:
            return self.preparation.audio.duration_s
        return self.info.duration_s if self.info is not None else 0.0

    @property
    def is_open(self) -> bool:
        """Whether the unit still waits for an outcome under a lease that holds."""
        return self.outcome is None and not self.held.lost.is_set()

    @property
    def is_ready(self) -> bool:
        """Whether the unit can be dispatched."""
        return self.is_open and self.preparation is not None

    @property
    def is_started(self) -> bool:
        """Whether its audio is decoded or being decoded."""
        return self.preparation is not None or self.decoding is not None

    def give_up_audio(self) -> None:
        """Return a finished preparation; a second time does nothing."""
        if self.preparation is not None:
            self.preparation.close()
            self.preparation = None

    def close(self) -> None:
        """Stop whatever goes on for this slot and return its audio."""
        for task in (self.opening, self.decoding):
            if task is not None:
                task.cancel()
        if self.opening is not None:
            self.opening.add_done_callback(_close_file)
        self.give_up_audio()


class Decoder:
    """Fetches and decodes slots on the IO threads. Whatever goes wrong ends the unit with a reason.

    `on_change` is called whenever a slot became ready, ended, or must be decoded anew.
    """

    def __init__(self, loader: AudioLoader, io: Executor, on_change: Callable[[], None]) -> None:
        self._loader = loader
        self._io = io
        self._on_change = on_change

    def begin_opening(self, slot: Slot) -> asyncio.Task[Opened]:
        """Open and probe a slot's file in the background, once."""
        if slot.opening is None:
            slot.opening = asyncio.create_task(self._open(slot))
        return slot.opening

    async def opened(self, slot: Slot) -> Opened | None:
        """The slot's opened file; None where the unit ended in opening it, or was given up."""
        opening = self.begin_opening(slot)
        await asyncio.wait([opening])
        if opening.cancelled():
            return None
        error = opening.exception()
        if error is not None:
            self._end(slot, error)
            return None
        if slot.seconds is None:
            slot.seconds = opening.result().seconds
        return opening.result()

    def start(self, slot: Slot, opened: Opened, hold: Hold) -> None:
        """Decode a slot under a hold, which passes to the preparation or is given back."""
        slot.decoding = asyncio.create_task(self._decode(slot, opened, hold))

    async def _open(self, slot: Slot) -> Opened:
        future = self._io.submit(self._loader.open, slot.unit)
        try:
            return await asyncio.shield(asyncio.wrap_future(future))
        except asyncio.CancelledError:
            future.add_done_callback(_close_late)
            raise

    async def _decode(self, slot: Slot, opened: Opened, hold: Hold) -> None:
        started = perf_counter()
        future = self._io.submit(self._loader.load, slot.unit, opened, hold.seconds)
        try:
            audio = await asyncio.shield(asyncio.wrap_future(future))
        except asyncio.CancelledError:
            self._abandon(future, opened, hold)
            raise
        except OverClaim:
            hold.close()
            self._start_over(slot)
        except Exception as error:
            hold.close()
            self._end(slot, error)
        else:
            slot.timings["fetch_decode"] = perf_counter() - started
            slot.preparation = Preparation(audio, hold)
            self._on_change()

    def _abandon(self, future: Future[Audio], opened: Opened, hold: Hold) -> None:
        """Let a decode under way fail at its next read; its memory counts until its thread is done."""
        opened.file.close()
        future.cancel()
        loop = asyncio.get_running_loop()
        future.add_done_callback(partial(_close_in_loop, loop, hold))

    def _start_over(self, slot: Slot) -> None:
        """The container claimed too little: the next decode sets aside the most that a unit may have."""
        slot.opening = slot.decoding = None
        slot.seconds = self._loader.max_seconds
        self._on_change()

    def _end(self, slot: Slot, error: BaseException) -> None:
        if slot.outcome is None:
            slot.outcome = error if isinstance(error, UnitError) else _unexpected(slot.unit, error)
            self._on_change()


def _unexpected(unit: Unit, error: BaseException) -> UnitFailed:
    log.error("unexpected failure of a fetch or decode", key=unit.key, exc_info=error)
    return UnitFailed(Reason.AUDIO_UNAVAILABLE, f"{type(error).__name__}: {error}")


def _close_file(opening: asyncio.Task[Opened]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().file.close()


def _close_late(future: Future[Opened]) -> None:
    if not future.cancelled() and future.exception() is None:
        future.result().file.close()


def _close_in_loop(loop: asyncio.AbstractEventLoop, hold: Hold, _: Future[Audio]) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is gone, and the books with it
        loop.call_soon_threadsafe(hold.close)
