"""What becomes of units whose audio the process cannot have, whichever unit it is: no credentials, no package."""

from __future__ import annotations

import asyncio

import pytest

from volery.artifacts.store import AudioSource, SourceFile
from volery.units import ArtifactsUnavailable, Reason, StoreError, Unit
from volery.worker import publication
from volery.worker.worker import Ending
from worker.stubs import Bench


class Locked:
    """A source whose `gs://` audio is out of reach until somebody unlocks it."""

    def __init__(self, source: AudioSource, refusals: int) -> None:
        self._source = source
        self.left = refusals
        self.refused = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def open(self, uri: str, max_bytes: int) -> SourceFile:
        if uri.startswith("gs://") and self.left > 0:
            self.left -= 1
            self._loop.call_soon_threadsafe(self.refused.set)
            raise ArtifactsUnavailable(Reason.AUDIO_UNAVAILABLE, "there are no credentials")
        return self._source.open(uri.replace("gs://", "file://"), max_bytes)


async def submit_in_bucket(bench: Bench, *seconds: float) -> None:
    """Units whose audio is said to be in a bucket."""
    units = await bench.submit(*seconds)
    await bench.store.submit(
        [Unit(key=unit.key, audio_uri=unit.audio_uri.replace("file://", "gs://")) for unit in units], replace=True
    )


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publication, "_WRITE_RETRY_SECONDS", (0.01, 0.02))


async def test_units_out_of_reach_go_back_uncharged_until_they_can_be_read(bench: Bench) -> None:
    await submit_in_bucket(bench, 0.2)
    worker = bench.worker(source=Locked(bench.source, refusals=4), burst=False)
    assert await bench.until_done(worker) is Ending.DRAINED
    assert await bench.endings() == {"u0": [*["refund:artifacts"] * 4, "done"]}
    assert await bench.attempts() == {"u0": 0}


async def test_a_lane_pauses_ever_longer_before_it_takes_units_out_of_reach_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = []
    wait = publication.Publisher._wait

    async def noted(self: publication.Publisher, seconds: float) -> None:
        waits.append(seconds)
        await wait(self, seconds)

    monkeypatch.setattr(publication.Publisher, "_wait", noted)
    monkeypatch.setattr(publication, "_WRITE_RETRY_SECONDS", (0.01, 0.04))
    await submit_in_bucket(bench, 0.2)
    worker = bench.worker(source=Locked(bench.source, refusals=4), burst=False, lanes=1)
    await bench.until_done(worker)
    assert waits == [0.01, 0.02, 0.04, 0.04]


async def test_a_drain_ends_the_pause(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publication, "_WRITE_RETRY_SECONDS", (3600.0, 3600.0))
    await submit_in_bucket(bench, 0.2)
    locked = Locked(bench.source, refusals=10**9)
    worker = bench.worker(source=locked, burst=False)
    running = asyncio.create_task(worker.run())
    await locked.refused.wait()
    worker.stop.drain()
    assert await running is Ending.DRAINED
    assert await bench.states() == {"u0": "ready"}
    assert await bench.attempts() == {"u0": 0}


async def test_a_burst_ends_with_the_reason_and_what_it_could_read_is_done(bench: Bench) -> None:
    await submit_in_bucket(bench, 0.2)
    await bench.store.submit([Unit("near", (bench.folder / "u0.wav").as_uri())])
    with pytest.raises(StoreError, match=r"audio cannot be read: .*no credentials"):
        await bench.worker(source=Locked(bench.source, refusals=10**9)).run()
    assert await bench.states() == {"u0": "ready", "near": "done"}
    assert await bench.attempts() == {"u0": 0, "near": 0}
