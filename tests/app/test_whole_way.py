"""The whole way of a unit with real models: queue, worker, models, published results."""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from volery import app
from volery.app import WorkerRun, run_worker
from volery.artifacts import open_results, open_source
from volery.artifacts.store import SourceFile
from volery.queue import open_store
from volery.queue.store import UnitRecord
from volery.results import UnitResult
from volery.settings import ArtifactSettings, QueueSettings, Settings, SpeechSettings, WorkerSettings
from volery.units import Unit, UnitState
from volery.worker.worker import Ending

pytestmark = pytest.mark.models

NOBODY = 65_534


def embedded_settings(folder: Path) -> Settings:
    """The embedded models over a private store."""
    return Settings(
        queue=QueueSettings(
            database_url=SecretStr(f"sqlite:///{folder / 'volery.db'}"), retry_base_seconds=0.0, max_attempts=3
        ),
        artifacts=ArtifactSettings(artifacts_url=(folder / "artifacts").as_uri()),
        worker=WorkerSettings(poll_seconds=0.05),
        speech=SpeechSettings(models="embedded"),
    )


class OddSource:
    """Local files, except that one is opened as a user who may not, and one grows while it is read."""

    def __init__(self, forbidden: str, growing: str) -> None:
        self._plain = open_source()
        self._forbidden = forbidden
        self._growing = growing

    def open(self, uri: str, max_bytes: int) -> SourceFile:
        with _as_nobody() if uri.endswith(self._forbidden) else _as_oneself():
            file = self._plain.open(uri, max_bytes)
        if uri.endswith(self._growing):
            with Path(uri.removeprefix("file://")).open("ab") as more:
                more.write(bytes(3200))
        return file


@contextmanager
def _as_oneself() -> Iterator[None]:
    yield


@contextmanager
def _as_nobody() -> Iterator[None]:
    """File access of this thread alone as an unprivileged user: root may read everything."""
    libc = ctypes.CDLL(None)
    libc.setfsuid(NOBODY)
    try:
        yield
    finally:
        libc.setfsuid(os.geteuid())


async def outcomes(
    settings: Settings, units: list[Unit], *, flight: int = 8
) -> tuple[dict[str, UnitRecord], dict[str, UnitResult]]:
    """Submit units, run one worker in burst, and read what became of them."""
    store = await open_store(settings.queue)
    await store.submit(units)
    assert await run_worker(settings, WorkerRun(burst=True, serve_http=False)) is Ending.FINISHED
    records = {record.unit.key: record async for record in store.records()}
    results = open_results(settings.artifacts.artifacts_url)
    documents = {
        key: UnitResult.model_validate(json.loads(results.read(record.artifact)))
        for key, record in records.items()
        if record.artifact is not None
    }
    await store.close()
    return records, documents


async def test_every_odd_file_ends_as_its_manifest_says_in_one_worker_run(
    shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases: list[dict[str, Any]] = json.loads((shared_data / "audio-cases" / "manifest.json").read_text())
    audio = (shared_data / "audio-cases" / "one_digit.wav").read_bytes()
    for name in ("forbidden.wav", "growing.wav"):
        (tmp_path / name).write_bytes(audio)
        (tmp_path / name).chmod(0o600)
    cases += [
        {"file": tmp_path / "missing.wav", "expect": "rejected", "reason": "audio_missing"},
        {"file": tmp_path, "expect": "rejected", "reason": "audio_not_a_file"},
        {"file": tmp_path / "forbidden.wav", "expect": "rejected", "reason": "audio_forbidden"},
        {"file": tmp_path / "growing.wav", "expect": "dead", "reason": "audio_changed"},
    ]
    monkeypatch.setattr(app, "open_source", lambda _: OddSource("forbidden.wav", "growing.wav"))
    folder = shared_data / "audio-cases"
    units = [Unit(key=str(n), audio_uri=(folder / case["file"]).as_uri()) for n, case in enumerate(cases)]

    records, documents = await outcomes(embedded_settings(tmp_path), units)

    for n, case in enumerate(cases):
        record = records[str(n)]
        assert (record.state, record.reason) == (case["expect"], case.get("reason")), case
        assert (record.error is None) == (record.state is UnitState.DONE), case
        if "class" in case:
            assert documents[str(n)].result_class == case["class"], case
        if "duration_s" in case:
            assert documents[str(n)].duration_s == pytest.approx(case["duration_s"], abs=0.15), case
        if "digits" in case:
            assert documents[str(n)].speech, case
    assert records[str(len(cases) - 1)].attempts == 3


async def test_a_result_says_who_said_what_and_what_made_it(tmp_path: Path, conversation: Path) -> None:
    _, documents = await outcomes(embedded_settings(tmp_path), [Unit(key="call", audio_uri=conversation.as_uri())])
    result = documents["call"]
    assert [one.id for one in result.speakers] == ["SPEAKER_00", "SPEAKER_01"]
    assert result.text == " ".join(word.text for word in result.words)
    assert all(0.0 <= word.start_s <= word.end_s <= result.duration_s for word in result.words)
    assert {word.speaker for word in result.words} <= {"SPEAKER_00", "SPEAKER_01"}
    assert result.models.keys() == {"vad", "segmentation", "embedding", "asr"}
    assert all(len(model.digest) == 64 for model in result.models.values())
    assert result.switches == {
        "vad_segmentation_reuse": "on",
        "asr_cuda_graphs": "inapplicable",
        "vad_recovery": "off",
        "prepare_flight": "on",
    }
    assert {"fetch_decode", "gpu_wait", "vad", "diarize", "asr"} <= result.timings.keys()
    assert result.audio.sample_rate == 16_000
    assert len(result.audio.sha256) == 64
