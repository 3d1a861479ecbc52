"""A signal that comes while models load: nothing is leased after it."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from volery import app
from volery.app import WorkerRun, run_worker
from volery.queue import open_store
from volery.settings import ArtifactSettings, QueueSettings, Settings
from volery.units import Unit, UnitState
from volery.worker.worker import Ending


async def test_a_worker_told_to_stop_while_it_loads_models_ends_without_a_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(
        queue=QueueSettings(database_url=SecretStr(f"sqlite:///{tmp_path / 'volery.db'}")),
        artifacts=ArtifactSettings(artifacts_url=(tmp_path / "artifacts").as_uri()),
    )
    store = await open_store(settings.queue)
    await store.submit([Unit(key="u", audio_uri="file:///nowhere.wav")])
    loading, go_on = threading.Event(), threading.Event()

    def load(*_: Any) -> Any:
        loading.set()
        go_on.wait()
        raise AssertionError("nobody waits for these models any more")

    monkeypatch.setattr(app, "load_pipeline", load)
    run = asyncio.create_task(run_worker(settings, WorkerRun(serve_http=False)))
    await asyncio.get_running_loop().run_in_executor(None, loading.wait)
    os.kill(os.getpid(), signal.SIGTERM)
    assert await run is Ending.DRAINED
    go_on.set()
    record = await store.get("u")
    assert record is not None
    assert record.state is UnitState.READY
    assert await store.grants() == []
    await store.close()
