"""Simulated IO takes as long as it was asked to, and the same in every arm."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from volery.artifacts import open_results, open_source
from volery.bench.delays import Distribution, IoDelays, Sleeper, SlowSource, fixed, parse_io, slow_results, slow_store
from worker.stubs import Bench, write_wav


def test_delays_are_read_as_they_are_shown() -> None:
    text = "fetch=0.43,publish=uniform:0.1:0.3,admission=lognormal:0.05:0.5"
    assert str(parse_io(text, IoDelays())) == text


def test_what_is_not_named_stays_as_it_was() -> None:
    base = IoDelays(fetch=fixed(0.43), publish=fixed(0.2))
    assert parse_io("fetch=2", base) == IoDelays(fetch=fixed(2.0), publish=fixed(0.2))
    assert parse_io("", base) == base


@pytest.mark.parametrize(
    "text",
    [
        "fetch",
        "fetch=",
        "read=1",
        "fetch=soon",
        "fetch=-1",
        "fetch=uniform:1",
        "fetch=uniform:3:1",
        "fetch=inf",
        "fetch=nan",
        "fetch=1:2",
    ],
)
def test_delays_that_make_no_sense_are_named(text: str) -> None:
    with pytest.raises(ValueError, match=text):
        parse_io(text, IoDelays())


def test_draws_follow_their_distribution() -> None:
    dice = random.Random(1)
    drawn = [Distribution("uniform", (1.0, 2.0)).draw(dice) for _ in range(100)]
    assert 1.0 <= min(drawn) < 1.1
    assert 1.9 < max(drawn) <= 2.0
    drawn = sorted(Distribution("lognormal", (3.0, 0.5)).draw(dice) for _ in range(1001))
    assert drawn[500] == pytest.approx(3.0, rel=0.1)
    assert sum(Distribution("exponential", (2.0,)).draw(dice) for _ in range(2000)) / 2000 == pytest.approx(2, rel=0.1)


def test_two_arms_sleep_as_long_in_the_same_repeat_and_otherwise_in_another() -> None:
    def slept(seed: str) -> float:
        sleeper = Sleeper(Distribution("uniform", (0.0, 1e-4)), seed)
        for _ in range(5):
            sleeper.sleep()
        return sleeper.seconds

    assert slept("fetch 1") == slept("fetch 1") != slept("fetch 2")


async def test_files_results_and_pulls_are_what_they_would_be_without_sleeps(tmp_path: Path) -> None:
    sleeper = Sleeper(fixed(0.0), "any")
    path = write_wav(tmp_path / "a.wav", 0.1)
    with_sleeps = SlowSource(open_source(), sleeper).open(path.as_uri(), 1 << 20)
    assert with_sleeps.stream.read() == path.read_bytes()
    with_sleeps.close()
    results = slow_results(open_results((tmp_path / "results").as_uri()), sleeper)
    results.check()
    assert results.read(results.write("token1", b"{}")) == b"{}"
    bench = await Bench.open(tmp_path)
    await bench.submit(0.1)
    store = slow_store(bench.store, sleeper)
    assert [lease.unit.key for lease in await store.pull("w", 8, 60.0)] == ["u0"]
    assert (await store.counts()).unfinished == 1
    assert sleeper.calls == 3
    bench.gpu.close()
    await store.close()
