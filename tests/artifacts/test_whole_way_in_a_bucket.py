"""From submission to publication with audio and results in a bucket, and a stub only where the models would be."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from artifacts.gcs_emulator import Bucket
from volery.artifacts import ResultStore, open_results
from volery.queue.pruning import Standing
from volery.results import UnitResult
from volery.units import Unit
from worker.stubs import Bench, write_wav

SECONDS = (1.0, 2.0, 0.5, 1.5)


@pytest.fixture
async def bench(tmp_path: Path, bucket: Bucket) -> AsyncIterator[Bench]:
    bench = await Bench.open(tmp_path)
    bench.results = open_results(bucket.uri("prefix"))
    yield bench
    bench.gpu.close()
    await bench.store.close()


async def submit(bench: Bench, bucket: Bucket) -> list[Unit]:
    """Put audio into the bucket and submit it; the last unit's is not there."""
    units = []
    for number, seconds in enumerate(SECONDS):
        audio = write_wav(bench.folder / f"u{number}.wav", seconds, number).read_bytes()
        units.append(Unit(key=f"u{number}", audio_uri=bucket.put(f"audio/u {number}.wav", audio)))
    units.append(Unit(key="missing", audio_uri=bucket.uri("audio/nowhere.wav")))
    await bench.store.submit(units)
    return units


def result_names(bucket: Bucket) -> list[str]:
    return [name.removeprefix("prefix/") for name in bucket.names() if name.startswith("prefix/results/")]


async def test_units_are_fetched_transcribed_and_published_each_under_the_token_of_the_lease_that_did_it(
    bench: Bench, bucket: Bucket
) -> None:
    units = await submit(bench, bucket)
    await bench.worker().run()
    assert await bench.states() == {**dict.fromkeys(["u0", "u1", "u2", "u3"], "done"), "missing": "rejected"}
    done = {grant.key: grant.token for grant in await bench.store.grants() if grant.ended_as == "done"}
    assert sorted(result_names(bucket)) == sorted(f"results/{token[:2]}/{token}.json" for token in done.values())
    words = set()
    for unit, seconds in zip(units, SECONDS, strict=False):
        record = await bench.store.get(unit.key)
        assert record is not None
        assert record.artifact == f"results/{done[unit.key][:2]}/{done[unit.key]}.json"
        result = UnitResult.model_validate_json(bench.results.read(record.artifact))
        assert (result.key, result.duration_s, result.audio.uri) == (unit.key, seconds, unit.audio_uri)
        words.add(result.text)
    assert len(words) == len(SECONDS)


class Stalled:
    """Results whose first write takes longer than the leases of the process that writes."""

    def __init__(self, results: ResultStore, database: Path) -> None:
        self._results = results
        self._database = database
        self.stalled: list[str] = []

    def write(self, token: str, document: bytes) -> str:
        artifact = self._results.write(token, document)
        if not self.stalled:
            self.stalled.append(artifact)
            with closing(sqlite3.connect(self._database)) as database, database:
                database.execute("UPDATE units SET expires_at = expires_at - 1000")
        return artifact


async def test_a_worker_that_stalled_before_its_commit_leaves_an_object_that_is_nobodys_result(
    bench: Bench, bucket: Bucket
) -> None:
    audio = write_wav(bench.folder / "u0.wav", 1.0).read_bytes()
    await bench.store.submit([Unit(key="u0", audio_uri=bucket.put("u0.wav", audio))])
    stalled = Stalled(bench.results, bench.folder / "volery.db")
    await bench.worker(results=stalled).run()
    assert await bench.endings() == {"u0": ["expired", "done"]}
    record = await bench.store.get("u0")
    assert record is not None
    assert sorted(result_names(bucket)) == sorted([*stalled.stalled, str(record.artifact)])
    standings = await bench.store.pruning().standings(
        {stored.token: stored.name for stored in bench.results.stored() if stored.token}
    )
    assert sorted(standings.values(), key=str) == [Standing.NAMED, Standing.UNNAMED]
