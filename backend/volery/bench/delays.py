"""Simulated IO: sleeps round the source's open, the result store's write and the job store's pull."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, cast

from volery.artifacts.store import AudioSource, ResultStore, SourceFile
from volery.queue.store import JobStore
from volery.units import Lease

_KINDS: dict[str, tuple[int, Callable[[random.Random, tuple[float, ...]], float]]] = {
    "fixed": (1, lambda _, said: said[0]),
    "uniform": (2, lambda dice, said: dice.uniform(*said)),
    "lognormal": (2, lambda dice, said: said[0] * dice.lognormvariate(0.0, said[1])),
    "exponential": (1, lambda dice, said: dice.expovariate(1.0) * said[0]),
}


@dataclass(frozen=True)
class Distribution:
    """How long something takes, in seconds.

    `fixed:SECONDS`, `uniform:LEAST:MOST`, `lognormal:MEDIAN:SIGMA` (sigma of the logarithm) or
    `exponential:MEAN`.
    """

    kind: str = "fixed"
    parameters: tuple[float, ...] = (0.0,)

    def draw(self, dice: random.Random) -> float:
        """One duration."""
        return _KINDS[self.kind][1](dice, self.parameters)

    def __str__(self) -> str:
        numbers = ":".join(f"{one:g}" for one in self.parameters)
        return numbers if self.kind == "fixed" else f"{self.kind}:{numbers}"


@dataclass(frozen=True)
class IoDelays:
    """How long a fetch, a publication and an admission take beyond what they really do."""

    fetch: Distribution = field(default_factory=Distribution)
    publish: Distribution = field(default_factory=Distribution)
    admission: Distribution = field(default_factory=Distribution)

    def __str__(self) -> str:
        return f"fetch={self.fetch},publish={self.publish},admission={self.admission}"


def parse_io(text: str, base: IoDelays) -> IoDelays:
    """Delays as on a command line, such as `fetch=0.43,publish=uniform:0.1:0.3`; others as in `base`.

    Raises:
        ValueError: it makes no sense; the message says what would.
    """
    changes: dict[str, Distribution] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, said = part.partition("=")
        if not equals or name not in ("fetch", "publish", "admission"):
            raise ValueError(f"{part}: name fetch, publish or admission and how long it takes, such as fetch=0.43")
        changes[name] = _distribution(part, said)
    return replace(base, **changes)


def fixed(seconds: float) -> Distribution:
    """Always as long."""
    return Distribution("fixed", (seconds,))


def _distribution(part: str, said: str) -> Distribution:
    words = said.split(":")
    kind, numbers = (words[0], words[1:]) if words[0] in _KINDS else ("fixed", words)
    try:
        parameters = tuple(float(number) for number in numbers)
    except ValueError:
        parameters = ()
    wanted = _KINDS[kind][0]
    if len(parameters) != wanted or not all(0 <= one < float("inf") for one in parameters):
        raise ValueError(
            f"{part}: write SECONDS, uniform:LEAST:MOST, lognormal:MEDIAN:SIGMA or exponential:MEAN, none below 0"
        )
    if kind == "uniform" and parameters[0] > parameters[1]:
        raise ValueError(f"{part}: the least of uniform:LEAST:MOST is more than the most")
    return Distribution(kind, parameters)


class Sleeper:
    """Sleeps as a distribution says. With the same seed the n-th sleep is as long, in every arm."""

    def __init__(self, distribution: Distribution, seed: str) -> None:
        self._distribution = distribution
        self._dice = random.Random(seed)
        self._lock = threading.Lock()
        self.calls = 0
        self.seconds = 0.0

    def sleep(self) -> None:
        """Block for one duration."""
        time.sleep(self._next())

    async def asleep(self) -> None:
        """Wait for one duration."""
        await asyncio.sleep(self._next())

    def _next(self) -> float:
        with self._lock:
            seconds = self._distribution.draw(self._dice)
            self.calls += 1
            self.seconds += seconds
        return seconds


class Sleepers:
    """The sleepers of one run."""

    def __init__(self, delays: IoDelays, repeat: int) -> None:
        self.fetch = Sleeper(delays.fetch, f"fetch {repeat}")
        self.publish = Sleeper(delays.publish, f"publish {repeat}")
        self.admission = Sleeper(delays.admission, f"admission {repeat}")


class SlowSource:
    """An audio source whose files take time to open."""

    def __init__(self, source: AudioSource, sleeper: Sleeper) -> None:
        self._source = source
        self._sleeper = sleeper

    def open(self, uri: str, max_bytes: int) -> SourceFile:
        """Sleep, then open; see `AudioSource.open`."""
        self._sleeper.sleep()
        return self._source.open(uri, max_bytes)


class _SlowWrite:
    def __init__(self, results: ResultStore, sleeper: Sleeper) -> None:
        self._results = results
        self._sleeper = sleeper

    def write(self, token: str, document: bytes) -> str:
        self._sleeper.sleep()
        return self._results.write(token, document)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._results, name)


def slow_results(results: ResultStore, sleeper: Sleeper) -> ResultStore:
    """A result store that takes time to write."""
    return cast("ResultStore", _SlowWrite(results, sleeper))


class _SlowPull:
    def __init__(self, store: JobStore, sleeper: Sleeper) -> None:
        self._store = store
        self._sleeper = sleeper

    async def pull(self, worker: str, limit: int, lease_seconds: float) -> list[Lease]:
        await self._sleeper.asleep()
        return await self._store.pull(worker, limit, lease_seconds)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def slow_store(store: JobStore, sleeper: Sleeper) -> JobStore:
    """The job store, in which a pull takes time and everything else goes straight through."""
    return cast("JobStore", _SlowPull(store, sleeper))
