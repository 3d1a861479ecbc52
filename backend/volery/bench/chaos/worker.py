"""A worker process of the harness: the real worker, with a stub where the models would be."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import time
from collections.abc import Sequence
from functools import partial
from typing import cast

from pydantic import SecretStr

from volery.artifacts import open_results, open_source
from volery.artifacts.store import ResultStore
from volery.bench.chaos.artifacts import FaultyResults, FaultySource
from volery.bench.chaos.audio import transcript_of
from volery.bench.chaos.plan import LEASE_SECONDS, MAX_ATTEMPTS, WorkerOrder, ready_file
from volery.queue import JobStore, open_store
from volery.settings import AudioSettings, QueueSettings, WorkerSettings
from volery.units import PreparedUnit, StoreError, Transcript, UnitError
from volery.worker.gpu import GpuThread
from volery.worker.health import Health
from volery.worker.stop import Stop
from volery.worker.worker import Worker

KILLER = "killer"
"""Units whose keys begin so kill the process that works on them."""

_RETRY_SECONDS = 0.5


def work(order: WorkerOrder) -> None:
    """The main function of a worker process: work until told to drain."""
    log = os.open(order.folder / "workers.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, sys.stdout.fileno())
    os.dup2(log, sys.stderr.fileno())
    asyncio.run(_work(order))


def process(pace_s: float, group: Sequence[PreparedUnit]) -> list[Transcript | UnitError]:
    """The stub of the models: takes its time, digests each unit's audio, and dies of a killer."""
    for one in group:
        if one.unit.key.startswith(KILLER):
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(pace_s)
    return [transcript_of(one) for one in group]


async def _work(order: WorkerOrder) -> None:
    settings = WorkerSettings(poll_seconds=0.2, admission_deadline_seconds=2.0, drain_seconds=2.0)
    stop = Stop(Health(stall_seconds=settings.health_stall_seconds))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.drain)
    store = await _opened(order, stop)
    if store is None:
        return
    chance = random.Random(order.seed)
    results = FaultyResults(open_results((order.folder / "artifacts").as_uri()), chance)
    gpu = GpuThread()
    worker = Worker(
        store=store,
        source=FaultySource(open_source(), chance),
        results=cast("ResultStore", results),
        process=partial(process, order.pace_s),
        gpu=gpu,
        settings=settings,
        audio=AudioSettings(),
        lease_seconds=LEASE_SECONDS,
        prepare_whole_flight=True,
        stop=stop,
    )
    ready_file(order.folder, os.getpid()).touch()
    try:
        await worker.run()
    finally:
        gpu.close()
        await store.close()


async def _opened(order: WorkerOrder, stop: Stop) -> JobStore | None:
    """The job store once it can be had; None where the process is told to stop first."""
    settings = QueueSettings(
        database_url=SecretStr(order.database_url),
        lease_seconds=LEASE_SECONDS,
        max_attempts=MAX_ATTEMPTS,
        retry_base_seconds=0.2,
        retry_max_seconds=1.0,
    )
    while not stop.requested.is_set():
        try:
            return await open_store(settings)
        except StoreError:
            await asyncio.sleep(_RETRY_SECONDS)
    return None
