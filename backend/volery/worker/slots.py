"""A flight's units on their way through a lane."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field

from volery.units import Audio, AudioInfo, Transcript, Unit, UnitError
from volery.worker.budget import Hold
from volery.worker.leases import HeldLease, LeaseKeeper
from volery.worker.preparation import Opened, Preparation


@dataclass(eq=False)
class Slot:
    """One unit of a flight: its lease, its audio while it has any, and how it ended.

    `seconds` is what its audio needs of a budget, known once its file is open; `hold` is the
    place in the line of a budget, then the share that its decoding has. `section_share` is what
    audio that was prepared before the GPU section counts for inside it.
    """

    held: HeldLease
    opening: Future[Opened] | None = None
    opened: Opened | None = None
    seconds: float | None = None
    hold: Hold | None = None
    decoding: Future[Audio] | None = None
    preparation: Preparation | None = None
    section_share: Hold | None = None
    outcome: Transcript | UnitError | None = None
    info: AudioInfo | None = None
    timings: dict[str, float] = field(default_factory=dict)
    is_closed: bool = False

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
        return self.outcome is None and not self.is_closed and not self.held.lost.is_set()

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
        if self.section_share is not None:
            self.section_share.close()
            self.section_share = None

    def leave_line(self) -> None:
        """Give up a place in the line of a budget."""
        if self.hold is not None and not self.hold.is_granted:
            self.hold.close()
            self.hold = None

    def close(self) -> None:
        """Stop whatever goes on for this slot and return its audio; a second time does nothing.

        The share of a decode that runs comes back once its thread is done: until then the memory is in use.
        """
        if self.is_closed:
            return
        self.is_closed = True
        if self.opening is not None:
            self.opening.cancel()
        runs = self.decoding is not None and not self.decoding.cancel()
        if self.opened is not None and runs:
            self.opened.give_up()
        elif self.opened is not None:
            self.opened.file.close()
        if self.hold is not None and not runs:
            self.hold.close()
        self.give_up_audio()


def drop_lost(slots: Iterable[Slot], keeper: LeaseKeeper) -> None:
    """Close the slots whose lease is gone."""
    for slot in slots:
        if not slot.is_closed and not keeper.check(slot.held):
            slot.close()


def bare(error: UnitError) -> UnitError:
    """The same error without its traceback, whose frames would keep the audio alive until publication."""
    return type(error)(error.reason, error.message)
