"""The audit beside a worker: what is sampled, what is dropped, what is told, and that nobody waits for it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from threading import Event
from typing import Any

import pytest
from prometheus_client import REGISTRY
from structlog.testing import capture_logs

from volery.referee.audit import Audit, in_sample
from volery.referee.cases import Case, Judgement, RefereeError, RefereeReason
from volery.settings import RefereeSettings
from volery.units import Unit

KEYS = [f"call-{n}" for n in range(40)]
LAST = "call-40"

Moved = Callable[..., float]


class Stub:
    """A referee that answers, fails on units as it is told, and on one stays until it is closed."""

    def __init__(self, *, stays_at: str = LAST, fails: dict[str, Exception] | None = None) -> None:
        self.asked: list[str] = []
        self.is_there = Event()
        self._stays_at = stays_at
        self._fails = fails or {}
        self._closed = Event()

    def judge(self, case: Case, deadline_s: float) -> Judgement:
        self.asked.append(case.key)
        if case.key == self._stays_at:
            self.is_there.set()
            self._closed.wait()
            raise RefereeError(RefereeReason.CLOSED, "closed")
        if case.key in self._fails:
            raise self._fails[case.key]
        return Judgement(
            case.key, 0.125, 0.5, escalated=True, edits=1, words=8, language="en", device="cpu", seconds=1.5
        )

    def close(self) -> None:
        self._closed.set()


def _case(key: str) -> Case:
    return Case(Unit(key, f"file:///{key}.wav"), f"results/{key}.json")


def _settings(**changes: Any) -> RefereeSettings:
    return RefereeSettings.model_validate({"referee_sample_rate": 1.0, "referee_queue_units": 100, **changes})


@pytest.fixture
def moved() -> Moved:
    """How far a series of the referee has moved since the test began."""
    before = {(one.name, *sorted(one.labels.items())): one.value for all_ in REGISTRY.collect() for one in all_.samples}

    def by(name: str, **labels: str) -> float:
        full = f"batch_pipeline_referee_{name}"
        now = REGISTRY.get_sample_value(full, labels) or 0.0
        return now - before.get((full, *sorted(labels.items())), 0.0)

    return by


def _audited(referee: Stub, settings: RefereeSettings, keys: list[str]) -> list[dict[str, Any]]:
    """Offer units to an audit, and close it once the referee is at its last; what was logged."""
    with capture_logs() as logs:
        audit = Audit(settings, referee)
        for key in keys:
            audit.offer(_case(key))
        assert referee.is_there.wait(60)
        audit.close()
    return [dict(line) for line in logs]


def test_every_worker_audits_the_same_units_and_no_others() -> None:
    settings = _settings(referee_sample_rate=0.3)
    wanted = [key for key in KEYS if in_sample(key, settings)]
    one, other = Stub(stays_at=wanted[-1]), Stub(stays_at=wanted[0])
    _audited(one, settings, KEYS)
    _audited(other, settings, KEYS[::-1])
    assert one.asked == other.asked[::-1] == wanted
    assert 4 < len(wanted) < 20


def test_what_does_not_fit_into_the_queue_is_dropped_at_once_and_counted(moved: Moved) -> None:
    referee = Stub(stays_at="call-0")
    audit = Audit(_settings(referee_queue_units=2), referee)
    audit.offer(_case("call-0"))
    assert referee.is_there.wait(60)  # from here on nobody takes anything out of the queue
    for key in KEYS[1:6]:
        audit.offer(_case(key))
    assert moved("units_total", outcome="dropped") == 3
    assert REGISTRY.get_sample_value("batch_pipeline_referee_queue_units") == 2
    audit.close()


def test_the_end_waits_neither_for_the_unit_at_hand_nor_for_those_behind_it() -> None:
    referee = Stub(stays_at="call-0")
    logs = _audited(referee, _settings(), KEYS[:4])
    assert referee.asked == ["call-0"]
    assert logs == [{"event": "units dropped from the audit as the worker ends", "units": 3, "log_level": "info"}]


def test_a_judgement_is_counted_and_logged_with_its_figures(moved: Moved) -> None:
    [line] = _audited(Stub(), _settings(), ["call-0", LAST])
    assert line == {
        "event": "unit audited",
        "log_level": "info",
        "key": "call-0",
        "disagreement": 0.125,
        "first": 0.5,
        "escalated": True,
        "words": 8,
        "language": "en",
        "device": "cpu",
        "seconds": 1.5,
    }
    assert moved("units_total", outcome="audited") == moved("escalated_total") == 1
    assert moved("disagreement_count", language="en") == 1
    assert moved("disagreement_sum", language="en") == 0.125


def test_a_unit_that_cannot_be_judged_is_counted_by_its_reason_and_the_next_is_judged(moved: Moved) -> None:
    fails = {
        "call-0": RefereeError(RefereeReason.AUDIO, "call-0: audio_missing"),
        "call-1": OSError("broken pipe"),
    }
    logs = _audited(Stub(fails=fails), _settings(), ["call-0", "call-1", "call-2", LAST])
    assert [(line["event"], line["key"], line.get("reason")) for line in logs] == [
        ("unit not audited", "call-0", "audio"),
        ("unit not audited", "call-1", "unexpected"),
        ("unit audited", "call-2", None),
    ]
    assert moved("units_total", outcome="audio") == moved("units_total", outcome="unexpected") == 1


def test_nothing_heavy_of_the_referees_comes_into_the_process_of_a_worker() -> None:
    script = "import json, sys, volery.referee.audit, volery.referee.process; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    there = {name.partition(".")[0] for name in json.loads(done.stdout)}
    assert "volery" in there
    assert there.isdisjoint({"torch", "faster_whisper", "ctranslate2", "transformers", "jiwer", "whisper_normalizer"})
