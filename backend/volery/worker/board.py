"""What a worker is doing, for the person who looks at its page: lanes, last flights, last troubles.

Written on the event loop and read by the threads of the HTTP port.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from threading import Lock
from time import perf_counter

from volery.units import UnitState
from volery.worker.budget import DecodeBudget
from volery.worker.publication import UnitEnded
from volery.worker.timeline import Phase, Span

_FLIGHTS = 12
_TROUBLES = 20

_AFTER = {
    Phase.ADMISSION: "preparing",
    Phase.PREPARATION: "waiting for the GPU",
    Phase.GPU_WAIT: "GPU section",
    Phase.GPU_SECTION: "publishing",
    Phase.PUBLICATION: "asking for work",
}
"""What a lane does once a phase has ended."""


@dataclass(frozen=True, slots=True)
class FlightView:
    """One flight: its units, the audio-seconds that it decoded, and the seconds of each phase that has ended."""

    lane: int
    units: int
    audio_s: float = 0.0
    phases: dict[str, float] = field(default_factory=dict)
    ended_at: str = ""


@dataclass(frozen=True, slots=True)
class LaneView:
    """What a lane does, since when (`perf_counter` seconds), and with which flight."""

    lane: int
    doing: str
    since_s: float
    flight: FlightView | None = None

    @property
    def for_s(self) -> float:
        """Seconds for which it has done this."""
        return perf_counter() - self.since_s


@dataclass(frozen=True, slots=True)
class Trouble:
    """A unit that did not end `done`. Its error is as the store keeps it, and holds no transcript."""

    at: str
    key: str
    outcome: str
    reason: str
    error: str


@dataclass(frozen=True, slots=True)
class BoardView:
    """All of it at one moment. Budgets are in audio-seconds."""

    lanes: tuple[LaneView, ...]
    flights: tuple[FlightView, ...]
    troubles: tuple[Trouble, ...]
    switches: dict[str, str]
    budget_in_use_s: float
    budget_limit_s: float
    ended: dict[str, int]


class Board:
    """Collects what the page shows. The last flights and troubles only, so it never grows."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._lanes: dict[int, LaneView] = {}
        self._flights: deque[FlightView] = deque(maxlen=_FLIGHTS)
        self._troubles: deque[Trouble] = deque(maxlen=_TROUBLES)
        self._ended: dict[str, int] = {}
        self._switches: dict[str, str] = {}
        self._budget: DecodeBudget | None = None

    def begin(self, lanes: int, budget: DecodeBudget, switches: dict[str, str]) -> None:
        """The worker is about to run so many lanes."""
        with self._lock:
            self._budget, self._switches = budget, dict(switches)
            self._lanes = {n: LaneView(n, _AFTER[Phase.PUBLICATION], perf_counter()) for n in range(lanes)}

    def span(self, span: Span) -> None:
        """A phase of a lane has ended."""
        with self._lock:
            lane = self._lanes[span.lane]
            if span.phase is Phase.ADMISSION:
                self._keep(lane.flight)
                lane = replace(lane, flight=FlightView(span.lane, span.units))
            if lane.flight is not None:
                self._lanes[span.lane] = self._after(replace(lane, flight=_with(lane.flight, span)), span)

    def ended(self, unit: UnitEnded) -> None:
        """A unit has ended, or failed and will be tried again, or cannot be published yet."""
        outcome = {UnitState.READY: "retry", UnitState.LEASED: "waiting"}.get(unit.state, unit.state.value)
        with self._lock:
            if unit.state is not UnitState.LEASED:
                self._ended[outcome] = self._ended.get(outcome, 0) + 1
            if unit.state is not UnitState.DONE:
                self._troubles.appendleft(Trouble(_now(), unit.key, outcome, unit.reason or "", unit.error or ""))

    def view(self) -> BoardView:
        """As it is now."""
        with self._lock:
            return BoardView(
                lanes=tuple(self._lanes.values()),
                flights=tuple(self._flights),
                troubles=tuple(self._troubles),
                switches=self._switches,
                budget_in_use_s=self._budget.in_use if self._budget else 0.0,
                budget_limit_s=self._budget.limit if self._budget else 0.0,
                ended=dict(self._ended),
            )

    def _after(self, lane: LaneView, span: Span) -> LaneView:
        """The lane once a phase of its flight has ended; a group's end changes nothing of what it does."""
        if span.phase is Phase.GROUP:
            return lane
        if span.phase is Phase.PUBLICATION:
            self._keep(lane.flight)
            lane = replace(lane, flight=None)
        return replace(lane, doing=_AFTER[span.phase], since_s=span.ended_s)

    def _keep(self, flight: FlightView | None) -> None:
        if flight is not None:
            self._flights.appendleft(replace(flight, ended_at=_now()))


def _with(flight: FlightView, span: Span) -> FlightView:
    seconds = flight.phases.get(span.phase, 0.0) + span.ended_s - span.began_s
    return replace(
        flight,
        audio_s=max(flight.audio_s, span.audio_s),
        phases={**flight.phases, span.phase.value: seconds},
    )


def _now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%d %H:%M:%SZ}"
