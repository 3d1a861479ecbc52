"""Real worker processes, really killed: nothing is lost, nothing is published twice, nobody pays for another."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from worker.stubs import Bench

pytestmark = pytest.mark.slow

LEASE_SECONDS = 1.0


async def start(folder: Path, killer: str = "") -> asyncio.subprocess.Process:
    script = Path(__file__).with_name("worker_process.py")
    tests = script.parent.parent
    return await asyncio.create_subprocess_exec(
        sys.executable,
        script,
        folder,
        killer,
        str(LEASE_SECONDS),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={"PYTHONPATH": str(tests), "PATH": "/usr/bin:/bin"},
    )


async def group_of(process: asyncio.subprocess.Process) -> list[str]:
    """Wait for the process to say which group it works on."""
    assert process.stdout is not None
    while (line := await process.stdout.readline()) and not line.startswith(b"group"):
        pass
    return line.decode().split()[1:]


async def test_units_of_a_killed_process_end_done_once_in_the_next_and_are_not_charged(bench: Bench) -> None:
    await bench.submit(*[0.1] * 12)
    doomed = await start(bench.folder, "hang")
    working_on = await group_of(doomed)
    doomed.kill()
    await doomed.wait()
    assert working_on
    assert await (await start(bench.folder)).wait() == 0
    assert set((await bench.states()).values()) == {"done"}
    assert set((await bench.attempts()).values()) == {0}
    endings = await bench.endings()
    assert all(of_unit.count("done") == 1 for of_unit in endings.values())
    assert all(endings[key][0] == "expired" for key in working_on)
    artifacts = [record.artifact async for record in bench.store.records()]
    assert len(set(artifacts)) == 12


async def test_a_unit_that_kills_its_process_ends_dead_and_its_neighbours_done_uncharged(bench: Bench) -> None:
    await bench.submit(*[0.1] * 8)
    deaths = 0
    while await (await start(bench.folder, "u3")).wait() != 0:
        deaths += 1
        assert deaths < 12
    states = await bench.states()
    assert states.pop("u3") == "dead"
    assert set(states.values()) == {"done"}
    attempts = await bench.attempts()
    assert attempts.pop("u3") == 3
    assert set(attempts.values()) == {0}
    alone = [grant for grant in await bench.store.grants("u3") if grant.alone]
    assert [grant.ended_as for grant in alone] == ["expired"] * 3
    record = await bench.store.get("u3")
    assert record is not None
    assert record.reason == "lease_expired"
