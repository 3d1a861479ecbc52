"""The exporter: what it says of a queue, and of a store that it cannot reach."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from prometheus_client import REGISTRY
from prometheus_client.parser import text_string_to_metric_families
from pydantic import SecretStr

from volery.exporter import run_exporter
from volery.queue import open_store
from volery.settings import QueueSettings, Settings, WorkerSettings
from volery.units import Unit
from volery.worker.probes import ProbeServer

Series = dict[tuple[str, str], float]


def settings(database: Path) -> Settings:
    return Settings(
        queue=QueueSettings(database_url=SecretStr(f"sqlite:///{database}")),
        worker=WorkerSettings(http_host="127.0.0.1", http_port=0),
    )


def scrape(server: ProbeServer, path: str = "metrics") -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/{path}", timeout=10) as answer:
        return str(answer.read().decode())


def series(text: str) -> Series:
    samples = (sample for family in text_string_to_metric_families(text) for sample in family.samples)
    return {(sample.name, sample.labels.get("state", "")): sample.value for sample in samples}


@asynccontextmanager
async def exporting(configured: Settings) -> AsyncIterator[Callable[[Callable[[Series], bool]], Awaitable[Series]]]:
    """An exporter, and a way to wait for what it says; at the end it is told to stop by SIGTERM."""
    server: asyncio.Future[ProbeServer] = asyncio.get_running_loop().create_future()
    running = asyncio.create_task(run_exporter(configured, 0.05, server.set_result))
    probes = await server

    async def said(wanted: Callable[[Series], bool]) -> Series:
        while not wanted(found := series(await asyncio.to_thread(scrape, probes))):
            await asyncio.sleep(0.02)
        return found

    try:
        yield said
    finally:
        os.kill(os.getpid(), signal.SIGTERM)
        await running


async def test_a_queue_that_no_worker_serves_is_reported(tmp_path: Path) -> None:
    configured = settings(tmp_path / "store.db")
    store = await open_store(configured.queue)
    await store.submit([Unit(key=f"{n}", owner="o", audio_uri=f"file:///{n}.wav") for n in range(3)])
    await store.cancel(["2"])
    await store.close()
    async with exporting(configured) as said:
        found = await said(lambda now: now.get(("batch_pipeline_store_reachable", "")) == 1)
    assert found["batch_pipeline_ready_units", ""] == 2
    assert found["batch_pipeline_oldest_ready_seconds", ""] >= 0
    assert found["batch_pipeline_units_in_state", "cancelled"] == 1
    assert found["batch_pipeline_units_in_state", "dead"] == 0


async def test_a_store_out_of_reach_is_said_and_leaves_no_old_figure(tmp_path: Path) -> None:
    database = tmp_path / "store.db"
    configured = settings(database)
    await (await open_store(configured.queue)).close()
    async with exporting(configured) as said:
        await said(lambda now: now.get(("batch_pipeline_store_reachable", "")) == 1)
        database.write_bytes(b"no database " * 1000)
        found = await said(lambda now: now["batch_pipeline_store_reachable", ""] == 0)
        assert math.isnan(found["batch_pipeline_ready_units", ""])
        assert math.isnan(found["batch_pipeline_units_in_state", "ready"])


async def test_a_store_that_comes_later_is_waited_for(tmp_path: Path) -> None:
    folder = tmp_path / "later"
    folder.write_text("in the way")
    configured = settings(folder / "store.db")
    async with exporting(configured) as said:
        await said(lambda now: now.get(("batch_pipeline_store_reachable", "")) == 0)
        folder.unlink()
        folder.mkdir()
        found = await said(lambda now: now["batch_pipeline_store_reachable", ""] == 1)
    assert found["batch_pipeline_ready_units", ""] == 0


@pytest.mark.parametrize("name", ["batch_pipeline_ready_units", "batch_pipeline_oldest_ready_seconds"])
def test_a_worker_does_not_report_a_queue_that_it_does_not_count(name: str) -> None:
    assert REGISTRY.get_sample_value(name) is None
