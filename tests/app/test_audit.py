"""The audit beside a real worker: none unless asked for, never waited for, and figures without words."""

from __future__ import annotations

import asyncio
import multiprocessing
import random
import re
import wave
from collections.abc import Sequence
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from prometheus_client import REGISTRY, generate_latest
from pydantic import SecretStr
from structlog.testing import capture_logs

from volery import app
from volery.app import WorkerRun, run_worker
from volery.queue import UnitRecord, open_store
from volery.referee.cases import Case, Judgement, RefereeError, RefereeReason
from volery.settings import ArtifactSettings, QueueSettings, RefereeSettings, Settings, SpeechSettings, WorkerSettings
from volery.units import PreparedUnit, ResultClass, Transcript, Unit, UnitOptions, Word
from volery.worker.worker import Ending

DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


class Pipeline:
    """Models that find one word in everything."""

    models = ()

    def warm_up(self) -> None:
        pass

    def switch_states(self) -> dict[str, str]:
        return {}

    def process(self, group: Sequence[PreparedUnit]) -> list[Transcript]:
        return [Transcript(ResultClass.SPEECH, words=(Word("word", 0.0, 0.1, 0.9),)) for _ in group]


class Stuck:
    """A referee that stays at its first case until it is closed."""

    def __init__(self) -> None:
        self.cases: list[Case] = []
        self.closed = Event()

    def judge(self, case: Case, deadline_s: float) -> Judgement:
        self.cases.append(case)
        self.closed.wait()
        raise RefereeError(RefereeReason.CLOSED, "closed")

    def close(self) -> None:
        self.closed.set()


def _settings(folder: Path, rate: float, **speech: Any) -> Settings:
    return Settings(
        queue=QueueSettings(database_url=SecretStr(f"sqlite:///{folder / 'volery.db'}")),
        artifacts=ArtifactSettings(artifacts_url=(folder / "artifacts").as_uri()),
        worker=WorkerSettings(poll_seconds=0.05),
        speech=SpeechSettings.model_validate({"models": "embedded", **speech}),
        referee=RefereeSettings(referee_sample_rate=rate),
    )


def _write(path: Path, samples: bytes, rate: int) -> str:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(samples)
    return path.as_uri()


async def _submit(settings: Settings, *units: Unit) -> None:
    store = await open_store(settings.queue)
    await store.submit(units)
    await store.close()


async def _records(settings: Settings) -> dict[str, UnitRecord]:
    store = await open_store(settings.queue)
    found = {record.unit.key: record async for record in store.records()}
    await store.close()
    return found


async def test_without_a_share_to_audit_there_is_no_referee(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_referee(*_: object, **__: object) -> None:
        raise AssertionError("a referee was opened")

    monkeypatch.setattr(app, "load_pipeline", lambda *_: Pipeline())
    monkeypatch.setattr(app, "open_referee", no_referee)
    settings = _settings(tmp_path, rate=0.0)
    await _submit(settings, Unit("u0", _write(tmp_path / "u0.wav", bytes(3200), 16_000)))
    assert await run_worker(settings, WorkerRun(burst=True, serve_http=False)) is Ending.FINISHED
    assert multiprocessing.active_children() == []


async def test_a_worker_ends_although_the_referee_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    referee = Stuck()
    monkeypatch.setattr(app, "load_pipeline", lambda *_: Pipeline())
    monkeypatch.setattr(app, "open_referee", lambda *_, **__: referee)
    settings = _settings(tmp_path, rate=1.0)
    units = [Unit(f"u{n}", _write(tmp_path / f"u{n}.wav", bytes(3200), 16_000)) for n in range(40)]
    missing = Unit("missing", (tmp_path / "missing.wav").as_uri())
    await _submit(settings, *units, missing)

    assert await run_worker(settings, WorkerRun(burst=True, serve_http=False)) is Ending.FINISHED

    records = await _records(settings)
    assert {records[unit.key].state.value for unit in units} == {"done"}
    assert referee.closed.is_set()
    [case] = referee.cases
    assert case == Case(records[case.key].unit, records[case.key].artifact or "")


@pytest.mark.models
@pytest.mark.slow
async def test_a_worker_audits_what_it_published_and_neither_logs_nor_metrics_hold_a_word_of_it(
    shared_data: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    settings = _settings(tmp_path, rate=1.0, asr_model="pocket")
    store = await open_store(settings.queue)
    await store.submit([Unit("held", "file:///held.wav")])
    await store.pull("another", 1, 600.0)  # a burst does not end before this has
    spoken = [_digits(shared_data, tmp_path / f"call-{n}.wav", who) for n, who in enumerate(("george", "lucas"))]
    await store.submit([Unit(f"call-{n}", uri, options=UnitOptions(language="en")) for n, uri in enumerate(spoken)])
    before = _audited()

    with capture_logs() as logs:
        running = asyncio.create_task(run_worker(settings, WorkerRun(burst=True, serve_http=False)))
        while _audited() < before + 2 and not running.done():
            await asyncio.sleep(0.05)
        await store.cancel(["held"])
        assert await running is Ending.FINISHED
    await store.close()

    audited = {line["key"]: line for line in logs if line["event"] == "unit audited"}
    assert audited.keys() == {"call-0", "call-1"}
    assert all(line["disagreement"] <= settings.referee.referee_threshold for line in audited.values())
    assert all((line["language"], line["device"]) == ("en", "cpu") for line in audited.values())
    series = [line for line in generate_latest().decode().splitlines() if not line.startswith("# HELP")]
    told = "\n".join((repr(logs), *capfd.readouterr(), *series))
    assert [digit for digit in DIGITS if re.search(rf"\b{digit}\b", told)] == []
    assert multiprocessing.active_children() == []


def _digits(data: Path, path: Path, who: str) -> str:
    """Six digits said by one person, in a file."""
    dice = random.Random(who)
    takes = (data / "fsdd" / f"{dice.randrange(10)}_{who}_{dice.randrange(5)}.wav" for _ in range(6))
    return _write(path, bytes(4800).join(map(_frames, takes)), 8_000)


def _frames(path: Path) -> bytes:
    with wave.open(str(path)) as file:
        return file.readframes(file.getnframes())


def _audited() -> float:
    return REGISTRY.get_sample_value("batch_pipeline_referee_units_total", {"outcome": "audited"}) or 0.0
