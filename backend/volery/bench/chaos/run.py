"""One run of the harness, from a new server to its findings."""

from __future__ import annotations

import asyncio
import json
import random
import tempfile
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from sqlalchemy import select

from volery.artifacts import open_results
from volery.bench.chaos.audio import digest_of_file, write_noise
from volery.bench.chaos.crew import Crew
from volery.bench.chaos.faults import Faults
from volery.bench.chaos.judge import Evidence, Finding, judge
from volery.bench.chaos.plan import Plan, Work, WorkerOrder
from volery.bench.chaos.proxy import Proxy
from volery.bench.chaos.server import ThrowawayServer, memory_folder
from volery.bench.chaos.worker import KILLER, work
from volery.queue import JobStore, open_store, upgrade
from volery.queue.engine import create_engine, parse_url
from volery.queue.tables import grants, units
from volery.settings import QueueSettings
from volery.units import StoreError, Unit

_OWNERS = ("radio", "archive", "court")
_BATCHES = 8
_LOOK_EVERY_S = 0.25
_DRAIN_S = 10.0
_START_S = 120.0


@dataclass(frozen=True)
class Outcome:
    """What was done to the workers, how the units and their grants ended, and what the judge found."""

    plan: Plan
    faults: dict[str, int]
    units: dict[str, int]
    leases: dict[str, int]
    settled_s: float
    findings: list[Finding]

    @property
    def violations(self) -> int:
        """How often a promise was broken."""
        return sum(len(finding.violations) for finding in self.findings)


def run(plan: Plan, work: Work = work) -> Outcome:
    """Run a plan on a throwaway server, with `work` as the main function of its worker processes."""
    with tempfile.TemporaryDirectory(prefix="volery-chaos-") as folder, ThrowawayServer(memory_folder()) as server:
        url = server.url(server.create_database())
        upgrade(url)
        return asyncio.run(_Run(plan, work, Path(folder), server, url).run())


class _Run:
    def __init__(self, plan: Plan, work: Work, folder: Path, server: ThrowawayServer, url: str) -> None:
        self._plan = plan
        self._folder = folder
        self._server = server
        self._url = url
        self._units = _make_units(plan, folder)
        self._proxies = [Proxy(folder / f"w{place}", server.socket_folder) for place in range(plan.workers)]
        self._expected = {unit.key: digest_of_file(_audio(unit).read_bytes()) for unit in self._units}
        database = url.partition("?")[0].rpartition("/")[2]
        orders = [
            WorkerOrder(server.url(database, via=proxy.folder), folder, plan.pace_s, plan.seed)
            for proxy in self._proxies
        ]
        self._crew = Crew(orders, work, random.Random(plan.seed))
        self._faults = Faults(plan, server, self._crew, self._proxies, [_audio(unit) for unit in self._units])

    async def run(self) -> Outcome:
        for proxy in self._proxies:
            await proxy.start()
        store = await open_store(QueueSettings(database_url=self._url))
        replacing = asyncio.create_task(self._replace_gone())
        submitting: asyncio.Task[None] | None = None
        try:
            await self._all_at_work()
            submitting = asyncio.create_task(self._submit(store))
            await self._faults.run()
            await submitting
            settled_s = await self._settle(store)
        finally:
            replacing.cancel()
            if submitting is not None:
                submitting.cancel()
            await asyncio.to_thread(self._crew.drain, _DRAIN_S)
            await store.close()
            for proxy in self._proxies:
                proxy.close()
        return self._outcome(await self._evidence(), settled_s)

    async def _all_at_work(self) -> None:
        """Wait until every worker process has started; the first imports for all of them."""
        async with asyncio.timeout(_START_S):
            while len(self._crew.at_work()) < self._plan.workers:  # noqa: ASYNC110  # other processes set no events
                await asyncio.sleep(_LOOK_EVERY_S)

    async def _replace_gone(self) -> None:
        while True:
            self._crew.replace_gone()
            await asyncio.sleep(_LOOK_EVERY_S)

    async def _submit(self, store: JobStore) -> None:
        """Submit half of the units at once and the others little by little, through restarts of the database."""
        half = len(self._units) // 2
        for batch in (self._units[:half], *(self._units[half + number :: _BATCHES] for number in range(_BATCHES))):
            while True:
                with suppress(StoreError):
                    await store.submit(batch)
                    break
                await asyncio.sleep(_LOOK_EVERY_S)
            await asyncio.sleep(0.5 * self._plan.seconds / _BATCHES)

    async def _settle(self, store: JobStore) -> float:
        """Wait until every unit has ended, or the time for that is over; how long it took."""
        started = monotonic()
        while monotonic() - started < self._plan.allowance_s:
            with suppress(StoreError):
                if (await store.counts()).unfinished == 0:
                    break
            await asyncio.sleep(_LOOK_EVERY_S)
        return monotonic() - started

    async def _evidence(self) -> Evidence:
        engine = create_engine(parse_url(self._url))
        async with engine.connect() as conn:
            of_units = [dict(row) for row in (await conn.execute(select(units).order_by(units.c.id))).mappings()]
            of_grants = [dict(row) for row in (await conn.execute(select(grants).order_by(grants.c.id))).mappings()]
        await engine.dispose()
        results = open_results((self._folder / "artifacts").as_uri())
        found: dict[str, str | None] = {}
        cut_short: set[str] = set()
        for unit in of_units:
            with suppress(StoreError, ValueError):
                if unit["artifact"]:
                    document = json.loads(results.read(unit["artifact"]))
                    found[unit["key"]] = document["text"] if document["key"] == unit["key"] else None
                    if document["audio"]["truncated"]:
                        cut_short.add(unit["key"])
        return Evidence(of_units, of_grants, self._expected, found, frozenset(cut_short))

    def _outcome(self, evidence: Evidence, settled_s: float) -> Outcome:
        return Outcome(
            plan=self._plan,
            faults={
                "processes started": self._crew.started,
                "processes crashed": self._crew.crashed,
                **self._faults.done,
            },
            units=dict(Counter(unit["state"] for unit in evidence.units).most_common()),
            leases=dict(Counter(str(grant["ended_as"]) for grant in evidence.grants).most_common()),
            settled_s=settled_s,
            findings=judge(evidence),
        )


def _make_units(plan: Plan, folder: Path) -> list[Unit]:
    """Units of several owners, each with audio of its own; one of them kills its process."""
    made = []
    (folder / "audio").mkdir()
    for number in range(plan.units):
        key = KILLER if number == plan.units // 3 else f"u{number}"
        path = folder / "audio" / f"{key}.wav"
        write_noise(path, plan.seed * plan.units + number)
        made.append(Unit(key=key, audio_uri=path.as_uri(), owner=_OWNERS[number % len(_OWNERS)]))
    return made


def _audio(unit: Unit) -> Path:
    return Path(unit.audio_uri.removeprefix("file://"))
