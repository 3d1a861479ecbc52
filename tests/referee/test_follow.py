"""The referee on its own: which of a fleet's units it takes, and what it serves."""

from __future__ import annotations

import asyncio
import os
import signal
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.error import HTTPError

import pytest
from pydantic import SecretStr

from volery.queue import JobStore, Publication, open_store
from volery.referee import follow as following
from volery.referee.audit import Audit
from volery.referee.cases import Case, Judgement
from volery.referee.follow import Following, follow
from volery.settings import QueueSettings, RefereeSettings, Settings, WorkerSettings
from volery.units import ConfigurationError, Reason, ResultClass, Unit
from volery.worker.probes import ProbeServer


class Offered(Audit):
    """An audit that only notes what it is offered."""

    def __init__(self) -> None:
        self.cases: list[Case] = []

    def offer(self, case: Case) -> None:
        self.cases.append(case)

    def taken(self) -> list[str]:
        """The keys since the last time."""
        keys = [case.key for case in self.cases]
        self.cases.clear()
        return keys


class Agrees:
    """A referee that always agrees."""

    def judge(self, case: Case, deadline_s: float) -> Judgement:
        return Judgement(
            case.key, 0.0, 0.0, escalated=False, edits=0, words=1, language="en", device="cpu", seconds=0.1
        )

    def close(self) -> None:
        pass


def _settings(folder: Path, rate: float = 1.0) -> Settings:
    return Settings(
        queue=QueueSettings(database_url=SecretStr(f"sqlite:///{folder / 'volery.db'}")),
        worker=WorkerSettings(http_host="127.0.0.1", http_port=0),
        referee=RefereeSettings(referee_sample_rate=rate),
    )


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[JobStore]:
    store = await open_store(_settings(tmp_path).queue)
    yield store
    await store.close()


async def _finish(store: JobStore, *keys: str) -> None:
    """Submit units and have them done, in this order."""
    for key in keys:
        await store.submit([Unit(key, f"file:///{key}.wav")])
        [lease] = await store.pull("worker", 1, 60.0)
        artifact = f"results/{lease.token[:2]}/{lease.token}.json"
        assert await store.complete([Publication(lease.token, artifact, ResultClass.SPEECH, 1.0)])


async def test_units_are_taken_once_each_from_the_first_look_on(store: JobStore) -> None:
    audit = Offered()
    looks = Following(audit)
    await _finish(store, "before")
    await looks.look(store)
    assert audit.taken() == []
    await _finish(store, "a", "b")
    await looks.look(store)
    assert audit.taken() == ["a", "b"]
    await _finish(store, "c")
    await looks.look(store)
    await looks.look(store)
    assert audit.taken() == ["c"]


async def test_a_case_is_the_unit_with_its_committed_result_and_takes_no_lease(store: JobStore) -> None:
    audit = Offered()
    looks = Following(audit)
    await looks.look(store)
    await _finish(store, "a")
    grants = await store.grants()
    await looks.look(store)
    record = await store.get("a")
    assert record is not None
    assert record.artifact is not None
    assert audit.cases == [Case(record.unit, record.artifact)]
    assert await store.grants() == grants


async def test_units_that_are_not_done_are_left_alone(store: JobStore) -> None:
    audit = Offered()
    looks = Following(audit)
    await looks.look(store)
    await store.submit([Unit("bad", "file:///bad.wav"), Unit("waits", "file:///waits.wav")])
    [lease, _] = await store.pull("worker", 2, 60.0)
    await store.reject(lease.token, Reason.AUDIO_EMPTY, "nothing in it")
    await looks.look(store)
    assert audit.taken() == []


async def test_a_unit_that_is_done_again_is_taken_again(store: JobStore) -> None:
    audit = Offered()
    looks = Following(audit)
    await _finish(store, "a")
    await looks.look(store)
    await store.requeue(["a"])
    await _finish(store, "a")
    await looks.look(store)
    assert audit.taken() == ["a"]


async def test_units_that_come_into_view_again_are_not_taken(store: JobStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "UNITS_LOOKED_AT", 2)
    audit = Offered()
    looks = Following(audit)
    await _finish(store, "old", "a", "b")
    await looks.look(store)
    await store.requeue(["b"])
    await looks.look(store)
    assert audit.taken() == []


async def test_a_sample_of_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="BATCH_PIPELINE_REFEREE_SAMPLE_RATE"):
        await follow(_settings(tmp_path, rate=0.0), Agrees(), 0.05)


async def test_it_serves_the_referees_series_and_none_of_a_workers(store: JobStore, tmp_path: Path) -> None:
    server: asyncio.Future[ProbeServer] = asyncio.get_running_loop().create_future()
    running = asyncio.create_task(follow(_settings(tmp_path), Agrees(), 0.05, server.set_result))
    port = (await server).port
    while "ok" not in await asyncio.to_thread(_scraped, port, "readyz"):
        await asyncio.sleep(0.02)
    before = _audited(await asyncio.to_thread(_scraped, port, "metrics"))
    await _finish(store, "a")
    while _audited(text := await asyncio.to_thread(_scraped, port, "metrics")) != before + 1:
        await asyncio.sleep(0.02)
    names = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE batch_pipeline")}
    assert names
    assert all(name.startswith("batch_pipeline_referee_") for name in names)
    os.kill(os.getpid(), signal.SIGTERM)
    await running


def _scraped(port: int, path: str) -> str:
    """What is served; nothing where it answers that it is not ready."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=10) as answer:
            return str(answer.read().decode())
    except HTTPError:
        return ""


def _audited(text: str) -> float:
    series = 'batch_pipeline_referee_units_total{outcome="audited"}'
    return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith(series))
