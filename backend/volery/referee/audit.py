"""The audit: a sample of what a worker publishes goes to the referee, and never gets in the worker's way."""

from __future__ import annotations

from contextlib import suppress
from queue import Empty, Full, Queue
from threading import Event, Thread
from typing import TYPE_CHECKING, Protocol

import structlog

from volery import metrics
from volery.referee.cases import Case, Judgement, RefereeError, RefereeReason
from volery.sampling import sampled
from volery.settings import RefereeSettings

if TYPE_CHECKING:
    from volery.worker.publication import UnitEnded  # which imports numpy

log = structlog.get_logger(__name__)

_AUDITED = "audited"
_DROPPED = "dropped"


class Referee(Protocol):
    """Judges one case after the other, in a process of its own."""

    def judge(self, case: Case, deadline_s: float) -> Judgement:
        """The judgement, waited for.

        Raises:
            RefereeError: there is none.
        """
        ...

    def close(self) -> None:
        """End the process at once, whatever it is at."""
        ...


class Audit:
    """Takes units from one thread, such as an event loop's, and has a sample of them judged on another.

    It holds no lease, no lock and no audio: a unit that waits here is a key, a URI and the name of a result.
    """

    def __init__(self, settings: RefereeSettings, referee: Referee) -> None:
        self._settings = settings
        self._referee = referee
        self._waiting: Queue[Case | None] = Queue(settings.referee_queue_units)
        self._closed = Event()
        self._thread = Thread(target=self._run, name="referee", daemon=True)
        self._thread.start()

    def offer(self, case: Case) -> None:
        """Queue a published unit, if it is in the sample; where the queue is full it is dropped. Returns at once."""
        if not in_sample(case.key, self._settings):
            return
        try:
            self._waiting.put_nowait(case)
        except Full:
            metrics.REFEREE_UNITS.labels(_DROPPED).inc()
        metrics.REFEREE_QUEUE_UNITS.set(self._waiting.qsize())

    def ended(self, unit: UnitEnded) -> None:
        """Offer a unit that a worker has ended, if it is published."""
        if unit.published is not None:
            self.offer(Case(unit.published.unit, unit.published.artifact))

    def close(self) -> None:
        """Drop what waits and end the referee's process; a unit that it is at has no judgement."""
        self._closed.set()
        dropped = self._drop_all()
        if dropped:
            log.info("units dropped from the audit as the worker ends", units=dropped)
        self._waiting.put_nowait(None)
        self._referee.close()

    def _drop_all(self) -> int:
        dropped = 0
        with suppress(Empty):
            while True:
                self._waiting.get_nowait()
                dropped += 1
        return dropped

    def _run(self) -> None:
        while (case := self._waiting.get()) and not self._closed.is_set():
            metrics.REFEREE_QUEUE_UNITS.set(self._waiting.qsize())
            audit(case, self._referee, self._settings.referee_deadline_seconds)


def in_sample(key: str, settings: RefereeSettings) -> bool:
    """Whether a unit is audited: the same for every process of a fleet, and for every time it is asked."""
    return sampled(key, settings.referee_sample_rate, "referee")


def audit(case: Case, referee: Referee, deadline_s: float) -> Judgement | None:
    """Have one unit judged, counted and logged: its key and figures, never its words. None where it cannot be."""
    try:
        judgement = referee.judge(case, deadline_s)
    except RefereeError as error:
        if error.reason is not RefereeReason.CLOSED:
            _not_audited(case, error.reason, error.message)
        return None
    except Exception as error:
        _not_audited(case, RefereeReason.UNEXPECTED, type(error).__name__)
        return None
    _audited(judgement)
    return judgement


def _not_audited(case: Case, reason: RefereeReason, why: str) -> None:
    metrics.REFEREE_UNITS.labels(reason).inc()
    log.warning("unit not audited", key=case.key, reason=reason, error=why)


def _audited(judgement: Judgement) -> None:
    metrics.REFEREE_UNITS.labels(_AUDITED).inc()
    metrics.REFEREE_DISAGREEMENT.labels(judgement.language or "unknown").observe(judgement.disagreement)
    if judgement.escalated:
        metrics.REFEREE_ESCALATED.inc()
    log.info(
        "unit audited",
        key=judgement.key,
        disagreement=round(judgement.disagreement, 4),
        first=round(judgement.first, 4),
        escalated=judgement.escalated,
        words=judgement.words,
        language=judgement.language,
        device=judgement.device,
        seconds=round(judgement.seconds, 2),
    )
