"""The exporter: what it says of a queue, and of a store that it cannot reach."""

from __future__ import annotations

import asyncio
import json
import math
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families
from pydantic import SecretStr

from volery.exporter import run_exporter
from volery.queue import JobStore, open_store, upgrade
from volery.settings import QueueSettings, Settings, WorkerSettings
from volery.units import Unit
from volery.worker import lookout
from volery.worker.lookout import look_out
from volery.worker.probes import ProbeServer
from volery.worker.stop import told_to_end

Series = dict[tuple[str, str], float]
REACHABLE = b"batch_pipeline_store_reachable 1.0"


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
        await (await open_store(configured.queue)).close()
        found = await said(lambda now: now["batch_pipeline_store_reachable", ""] == 1)
    assert found["batch_pipeline_ready_units", ""] == 0


async def test_a_missing_file_is_a_store_out_of_reach_and_none_is_made(tmp_path: Path) -> None:
    seen: asyncio.Queue[str] = asyncio.Queue()

    async def look(_: JobStore) -> None:
        seen.put_nowait("a store")

    running = asyncio.create_task(
        look_out(
            settings(tmp_path / "mistyped" / "store.db"),
            0.05,
            look,
            registry=CollectorRegistry(),
            on_trouble=lambda: seen.put_nowait("trouble"),
        )
    )
    assert await seen.get() == "trouble"
    os.kill(os.getpid(), signal.SIGTERM)
    await running
    assert list(tmp_path.iterdir()) == []


def test_a_signal_ends_the_process_well(tmp_path: Path) -> None:
    database = tmp_path / "store.db"
    upgrade(f"sqlite:///{database}")
    process = subprocess.Popen(
        [Path(sys.executable).with_name("volery"), "exporter", "--http-port", "0"],
        stderr=subprocess.PIPE,
        text=True,
        env={
            **os.environ,
            "BATCH_PIPELINE_DATABASE_URL": f"sqlite:///{database}",
            "BATCH_PIPELINE_LOG_FORMAT": "json",
        },
    )
    assert process.stderr is not None
    port = json.loads(process.stderr.readline())["port"]
    while urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10).read().find(REACHABLE) < 0:
        assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")


async def test_a_signal_lets_a_look_that_is_under_way_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configured = settings(tmp_path / "store.db")
    await (await open_store(configured.queue)).close()
    begun, told, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()
    monkeypatch.setattr(lookout, "told_to_end", lambda call: told_to_end(lambda: (call(), told.set())))

    async def look(store: JobStore) -> None:
        begun.set()
        await told.wait()
        await store.counts()
        ended.set()

    running = asyncio.create_task(look_out(configured, 0.05, look, registry=CollectorRegistry()))
    await begun.wait()
    os.kill(os.getpid(), signal.SIGTERM)
    await running
    assert ended.is_set()


async def test_a_look_that_hangs_does_not_hold_up_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookout, "ENDING_SECONDS", 0.05)
    configured = settings(tmp_path / "store.db")
    await (await open_store(configured.queue)).close()
    begun = asyncio.Event()

    async def look(_: JobStore) -> None:
        begun.set()
        await asyncio.Event().wait()

    running = asyncio.create_task(look_out(configured, 0.05, look, registry=CollectorRegistry()))
    await begun.wait()
    os.kill(os.getpid(), signal.SIGTERM)
    await running


@pytest.mark.parametrize("name", ["batch_pipeline_ready_units", "batch_pipeline_oldest_ready_seconds"])
def test_a_worker_does_not_report_a_queue_that_it_does_not_count(name: str) -> None:
    assert REGISTRY.get_sample_value(name) is None
