"""`kill -9` of the real command with real models, and what the next worker makes of it."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from volery.queue import JobStore, open_store
from volery.settings import QueueSettings
from volery.units import Unit, UnitState

pytestmark = [pytest.mark.models, pytest.mark.slow]

UNITS = 6


async def start(folder: Path) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        Path(sys.executable).with_name("volery"),
        *("worker", "--burst", "--models", "embedded"),
        stderr=asyncio.subprocess.DEVNULL,
        env={
            **os.environ,
            "BATCH_PIPELINE_DATABASE_URL": f"sqlite:///{folder / 'volery.db'}",
            "BATCH_PIPELINE_ARTIFACTS_URL": (folder / "artifacts").as_uri(),
            "BATCH_PIPELINE_LEASE_SECONDS": "3",
            "BATCH_PIPELINE_FLIGHT_UNITS": "2",
            "BATCH_PIPELINE_HTTP_PORT": "0",
        },
    )


async def states(store: JobStore) -> list[UnitState]:
    return [record.state async for record in store.records()]


async def test_every_unit_ends_done_once_and_the_grants_tell_the_story(tmp_path: Path, conversation: Path) -> None:
    store = await open_store(QueueSettings.model_validate({"database_url": f"sqlite:///{tmp_path / 'volery.db'}"}))
    await store.submit([Unit(key=f"call-{n}", audio_uri=conversation.as_uri()) for n in range(UNITS)])
    doomed = await start(tmp_path)
    while UnitState.DONE not in (seen := await states(store)):
        assert doomed.returncode is None
        await asyncio.sleep(0.1)
    doomed.kill()
    await doomed.wait()
    assert seen.count(UnitState.DONE) < UNITS

    assert await (await start(tmp_path)).wait() == 0

    assert await states(store) == [UnitState.DONE] * UNITS
    grants = await store.grants()
    endings = [grant.ended_as for grant in grants]
    assert endings.count("done") == UNITS
    assert "expired" in endings
    assert set(endings) == {"done", "expired"}
    assert len({grant.worker for grant in grants}) == 2
    records = [record async for record in store.records()]
    assert {record.attempts for record in records} == {0}
    done = {grant.key: grant.token for grant in grants if grant.ended_as == "done"}
    assert all(done[record.unit.key] in (record.artifact or "") for record in records)
    await store.close()
