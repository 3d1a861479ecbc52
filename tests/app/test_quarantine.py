"""Quarantine with the real Parakeet engine: a wrong mode stops the process, and nobody pays for it twice over."""

from __future__ import annotations

import errno
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from volery import app
from volery.app import WorkerRun, run_worker
from volery.queue import open_store
from volery.settings import ArtifactSettings, QueueSettings, Settings, SpeechSettings, WorkerSettings
from volery.speech.decoding_mode import computer_of
from volery.speech.pipeline import SpeechPipeline, load_pipeline
from volery.units import Clip, QuarantineError, Reason, Unit, UnitState
from volery.worker.worker import Ending

pytestmark = pytest.mark.models

UNITS = 6


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """The pocket Parakeet over a private store, one unit a flight."""
    (tmp_path / "termination-log").touch()
    return Settings(
        queue=QueueSettings(database_url=SecretStr(f"sqlite:///{tmp_path / 'volery.db'}"), retry_base_seconds=0.0),
        artifacts=ArtifactSettings(artifacts_url=(tmp_path / "artifacts").as_uri()),
        worker=WorkerSettings(
            poll_seconds=0.05,
            flight_units=2,
            quarantine_linger_seconds=0.0,
            termination_message_path=tmp_path / "termination-log",
        ),
        speech=SpeechSettings(models="embedded", device="cpu", asr_engine="parakeet", asr_model="pocket"),
    )


async def submit(settings: Settings, audio: Path, count: int) -> None:
    store = await open_store(settings.queue)
    uri = audio.as_uri()
    await store.submit([Unit(key=f"u{n}", audio_uri=uri, clip=Clip(7.0 + 3 * n, 10.0 + 3 * n)) for n in range(count)])
    await store.close()


async def ended(settings: Settings) -> tuple[dict[str, UnitState], set[int], list[str | None]]:
    """States by key, the attempts that occur, and how the grants ended."""
    store = await open_store(settings.queue)
    records = [record async for record in store.records()]
    endings = [grant.ended_as for grant in await store.grants()]
    await store.close()
    return {record.unit.key: record.state for record in records}, {record.attempts for record in records}, endings


def flipping(at_batch: int) -> Callable[..., SpeechPipeline]:
    """A loader whose pipeline has its decoding mode flipped, by NeMo's own toggle, before a batch."""

    def load(*groups: Any) -> SpeechPipeline:
        pipeline = load_pipeline(*groups)
        engine: Any = pipeline.asr
        forward, batches = engine._forward, 0

        def counting(*batch: Any) -> Any:
            nonlocal batches
            batches += 1
            if batches == at_batch:
                computer_of(engine.model).allow_cuda_graphs = True
                engine.model.on_validation_epoch_start()
            return forward(*batch)

        engine._forward = counting
        return pipeline

    return load


async def test_a_mode_flipped_mid_run_quarantines_refunds_all_and_a_second_worker_finishes(
    settings: Settings, conversation: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await submit(settings, conversation, UNITS)
    monkeypatch.setattr(app, "load_pipeline", flipping(at_batch=4))
    assert await run_worker(settings, WorkerRun(burst=True, serve_http=False)) is Ending.QUARANTINED

    states, attempts, endings = await ended(settings)
    assert 0 < list(states.values()).count(UnitState.DONE) < UNITS
    assert set(states.values()) == {UnitState.DONE, UnitState.READY}
    assert attempts == {0}
    assert "refund:quarantine" in endings
    reason = (tmp_path / "termination-log").read_text()
    assert reason.startswith("quarantined: decoding_mode: eager decoding was asked for")

    monkeypatch.setattr(app, "load_pipeline", load_pipeline)
    assert await run_worker(settings, WorkerRun(burst=True, serve_http=False)) is Ending.FINISHED
    states, attempts, endings = await ended(settings)
    assert set(states.values()) == {UnitState.DONE}
    assert attempts == {0}
    assert endings.count("done") == UNITS


async def test_a_unit_that_trips_every_process_ends_dead(
    settings: Settings, conversation: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await submit(settings, conversation, 1)
    monkeypatch.setattr(app, "load_pipeline", flipping(at_batch=2))  # the first is the warm-up
    for _ in range(4):
        assert await run_worker(settings, WorkerRun(burst=True, serve_http=False)) is Ending.QUARANTINED
    assert await run_worker(settings, WorkerRun(burst=True, serve_http=False)) is Ending.FINISHED
    store = await open_store(settings.queue)
    record = await store.get("u0")
    await store.close()
    assert record is not None
    assert (record.state, record.reason, record.attempts) == (UnitState.DEAD, Reason.QUARANTINED_TWICE, 3)


async def test_a_wrong_mode_at_startup_quarantines_before_anything_is_leased(
    settings: Settings, conversation: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(*_: Any) -> SpeechPipeline:
        raise QuarantineError("decoding_mode", "graphs were asked for, but the mode is no_while_loops")

    await submit(settings, conversation, 1)
    monkeypatch.setattr(app, "load_pipeline", wrong)
    assert await run_worker(settings, WorkerRun(burst=True, serve_http=False)) is Ending.QUARANTINED
    states, attempts, endings = await ended(settings)
    assert (set(states.values()), attempts, endings) == ({UnitState.READY}, {0}, [])
    assert "no_while_loops" in (tmp_path / "termination-log").read_text()


async def test_a_termination_message_that_cannot_be_written_changes_nothing_else(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(*_: Any) -> SpeechPipeline:
        raise QuarantineError("decoding_mode", "wrong")

    def refused(*_: Any) -> int:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(app, "load_pipeline", wrong)
    monkeypatch.setattr(Path, "write_text", refused)
    assert await run_worker(settings, WorkerRun(burst=True, serve_http=False)) is Ending.QUARANTINED


async def test_a_quarantined_process_stays_up_to_be_scraped_and_fails_its_probe(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(*_: Any) -> SpeechPipeline:
        raise QuarantineError("decoding_mode", "wrong")

    answers: list[tuple[int, str]] = []

    async def scrape(seconds: float) -> None:
        answers.extend(_get(port, path) for path in ("/healthz", "/metrics"))
        assert seconds == 30.0

    port = _free_port()
    worker = settings.worker.model_copy(
        update={"http_host": "127.0.0.1", "http_port": port, "quarantine_linger_seconds": 30.0}
    )
    monkeypatch.setattr(app, "load_pipeline", wrong)
    monkeypatch.setattr(app.asyncio, "sleep", scrape)
    assert await run_worker(replace(settings, worker=worker), WorkerRun()) is Ending.QUARANTINED
    (health, body), (_, series) = answers
    assert (health, body) == (503, "quarantined: decoding_mode\n")
    assert 'batch_pipeline_quarantine{reason="decoding_mode"} 1.0' in series


def _get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def _free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
