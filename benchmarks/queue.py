"""The job store on PostgreSQL: units leased and completed a second beside procrastinate, and what a pull costs.

    python benchmarks/queue.py [--units 4000] [--jobs 1000] [--repeats 5] [--most-rows 1000000] [--json]

Both libraries use the same throwaway server with its default durability (fsync and synchronous
commit on), by turns in the same run, and each counts with its best setting of several. A worker
here leases and completes and does nothing else: what is measured is the queue.
"""

from __future__ import annotations

import sys

sys.path = [folder for folder in sys.path if not folder.endswith("benchmarks")]  # this is no module `queue`

import argparse  # noqa: E402
import asyncio  # noqa: E402
import json  # noqa: E402
import logging  # noqa: E402
import multiprocessing  # noqa: E402
from collections.abc import Callable  # noqa: E402
from dataclasses import asdict, dataclass  # noqa: E402
from statistics import median, quantiles  # noqa: E402
from time import perf_counter, time  # noqa: E402
from typing import Any  # noqa: E402

import procrastinate  # noqa: E402
import psycopg  # noqa: E402
from pydantic import SecretStr  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

from volery.bench.chaos.server import ThrowawayServer  # noqa: E402
from volery.bench.queries import explain, scans  # noqa: E402
from volery.queue import JobStore, Publication, open_store, statements, upgrade  # noqa: E402
from volery.queue.engine import create_engine, parse_url  # noqa: E402
from volery.settings import QueueSettings  # noqa: E402
from volery.units import ResultClass, Unit  # noqa: E402

PULLS = 200
SIZES = (1_000, 10_000, 100_000, 1_000_000)
PROCESSES = (1, 4)
Worker = Callable[[str, "Way", Any, Any], None]
"""The main function of a worker process: its database, how to work, the start for all, and where to say how it went."""


@dataclass(frozen=True)
class Way:
    """How a worker process works: in so many tasks at once, each taking so many units at a time."""

    contender: str
    tasks: int
    at_a_time: int


VOLERY = (Way("volery", 2, 8), Way("volery", 2, 32), Way("volery", 4, 32))
PROCRASTINATE = (Way("procrastinate", 1, 1), Way("procrastinate", 8, 1), Way("procrastinate", 16, 1))

_FILL = """INSERT INTO units (key, owner, priority, audio_uri, privacy_generation, state, rank, submitted_at,
 available_at, attempts, suspicion, quarantines, alone)
SELECT 'unit-' || n, 'owner-' || n % {owners}, 0, 'gs://bucket/audio/' || n || '.wav', 0, 'ready', n / {owners} + 1,
 0, 0, 0, 0, 0, false FROM generate_series(0, {rows} - 1) n"""


@dataclass(frozen=True)
class Rate:
    """Units leased and completed a second by some processes, in each repeat."""

    way: Way
    processes: int
    per_second: tuple[float, ...]


@dataclass(frozen=True)
class PullCost:
    """What a pull of eight took at the client, and its statement in the server, in milliseconds."""

    rows: int
    owners: int
    median_ms: float
    p95_ms: float
    server_ms: float
    scans: tuple[str, ...]


def volery_worker(url: str, way: Way, start: Any, said: Any) -> None:
    """Lanes that pull flights and complete them."""

    async def lane(store: JobStore, worker: str) -> None:
        while leases := await store.pull(worker, way.at_a_time, 120.0):
            results = [Publication(lease.token, f"results/{lease.token}", ResultClass.SPEECH, 1.0) for lease in leases]
            await store.complete(results)

    async def work() -> None:
        store = await opened(url)
        worker = multiprocessing.current_process().name
        await store.counts()  # both connect before the start
        start.wait()
        began = time()
        await asyncio.gather(*(lane(store, worker) for _ in range(way.tasks)))
        said.put((began, time()))
        await store.close()

    asyncio.run(work())


def procrastinate_worker(url: str, way: Way, start: Any, said: Any) -> None:
    """A worker of procrastinate that ends when there is no job left."""
    logging.disable(logging.CRITICAL)

    async def work() -> None:
        app = procrastinate_app(url, connections=max(4, way.tasks))
        async with app.open_async():
            start.wait()
            began = time()
            await app.run_worker_async(
                wait=False, concurrency=way.tasks, listen_notify=False, install_signal_handlers=False
            )
            said.put((began, time()))

    asyncio.run(work())


async def nothing(number: int) -> None:
    """The job."""


def procrastinate_app(url: str, connections: int = 4) -> procrastinate.App:
    """An app with the one task, over a database."""
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url, min_size=1, max_size=connections))
    app.task(nothing, name="nothing", queue="units")
    return app


async def opened(url: str) -> JobStore:
    """The job store at a URL."""
    return await open_store(QueueSettings(database_url=SecretStr(url)))


async def fill_volery(url: str, units: int) -> None:
    """Submit units of ten owners."""
    store = await opened(url)
    await store.submit([Unit(f"unit-{n}", f"gs://bucket/{n}.wav", owner=f"owner-{n % 10}") for n in range(units)])
    await store.close()


async def fill_procrastinate(url: str, jobs: int) -> None:
    """Defer jobs."""
    app = procrastinate_app(url)
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        await app.tasks["nothing"].batch_defer_async(*({"number": n} for n in range(jobs)))


def per_second(server: ThrowawayServer, way: Way, processes: int, units: int) -> float:
    """Run worker processes over a filled queue of their own, from a common start to the last one's end."""
    name = server.create_database()
    url = server.url(name)
    if way.contender == "volery":
        upgrade(url)
    asyncio.run((fill_volery if way.contender == "volery" else fill_procrastinate)(url, units))
    worker: Worker = volery_worker if way.contender == "volery" else procrastinate_worker
    context = multiprocessing.get_context("spawn")
    start, said = context.Barrier(processes), context.Queue()
    started = [context.Process(target=worker, args=(url, way, start, said)) for _ in range(processes)]
    for process in started:
        process.start()
    times = [said.get() for _ in started]
    for process in started:
        process.join()
    server.sql(f"DROP DATABASE {name} WITH (FORCE);")
    return units / (max(end for _, end in times) - min(began for began, _ in times))


def rates(server: ThrowawayServer, units: int, jobs: int, repeats: int) -> list[Rate]:
    """Every way of both contenders, by turns, with one process and with four."""
    cases = [(processes, way) for processes in PROCESSES for way in (*VOLERY, *PROCRASTINATE)]
    found: dict[tuple[int, Way], list[float]] = {case: [] for case in cases}
    for _ in range(repeats):
        for processes, way in cases:
            found[processes, way].append(per_second(server, way, processes, units if way in VOLERY else jobs))
    return [Rate(way, processes, tuple(times)) for (processes, way), times in found.items()]


async def pull_cost(server: ThrowawayServer, rows: int, owners: int) -> PullCost:
    """Pull eight units again and again from a queue of so many."""
    name = server.create_database()
    url = server.url(name)
    await asyncio.to_thread(upgrade, url)
    server.sql(f"\\c {name}\n{_FILL.format(rows=rows, owners=owners)};\nVACUUM ANALYZE units;\nCHECKPOINT;")
    engine = create_engine(parse_url(url))
    parameters = {"process": "explains", "limit": 8, "suspects": 2, "lease_seconds": 60.0}
    async with engine.connect() as conn:
        plan = await explain(conn, statements.PULL_AND_RECORD, parameters, run=True)
        await conn.rollback()
    await engine.dispose()
    store = await opened(url)
    seconds = []
    for number in range(min(PULLS, rows // 8)):
        began = perf_counter()
        leases = await store.pull(f"worker-{number}", 8, 600.0)
        seconds.append(perf_counter() - began)
        assert len(leases) == 8
    await store.close()
    server.sql(f"DROP DATABASE {name} WITH (FORCE);")
    in_ms = [1000 * one for one in seconds]
    return PullCost(rows, owners, median(in_ms), quantiles(in_ms, n=20)[-1], plan["Execution Time"], tuple(scans(plan)))


def times_procrastinate(rate: Rate, found: list[Rate]) -> tuple[float, ...]:
    """How many times procrastinate's best of the same repeat, with as many processes, a rate is."""
    others = [one.per_second for one in found if one.processes == rate.processes and one.way in PROCRASTINATE]
    return tuple(mine / max(theirs) for mine, *theirs in zip(rate.per_second, *others, strict=True))


def table_of_rates(found: list[Rate]) -> Table:
    """Rates, and how many times procrastinate's best of the same repeat each is: the median, the least and the most."""
    columns = ("", "processes", "tasks", "at a time", "units/s", "least–most", "× procrastinate", "least–most")
    table = Table(*columns, title="leased and completed")
    for column in table.columns[1:]:
        column.justify = "right"
    for rate in found:
        way, speeds = rate.way, rate.per_second
        times = times_procrastinate(rate, found) if way in VOLERY else ()
        table.add_row(
            *(way.contender, str(rate.processes), str(way.tasks), str(way.at_a_time)),
            *(f"{median(speeds):.0f}", f"{min(speeds):.0f}–{max(speeds):.0f}"),
            *((f"{median(times):.1f}", f"{min(times):.1f}–{max(times):.1f}") if times else ("", "")),
        )
    return table


def table_of_costs(found: list[PullCost]) -> Table:
    """What a pull costs, and which scans it made."""
    table = Table("ready units", "owners", "median ms", "p95 ms", "in the server ms", "scans", title="a pull of eight")
    for cost in found:
        times = (cost.median_ms, cost.p95_ms, cost.server_ms)
        table.add_row(
            f"{cost.rows:,}", str(cost.owners), *(f"{one:.2f}" for one in times), "\n".join(dict.fromkeys(cost.scans))
        )
    return table


def main() -> int:
    """Measure and print; the exit code is 1 where a pull read anything but indexes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--units", type=int, default=4000, help="units for each measurement of volery")
    parser.add_argument("--jobs", type=int, default=1000, help="jobs for each measurement of procrastinate")
    parser.add_argument("--repeats", type=int, default=5, help="how often each is measured, by turns")
    parser.add_argument("--most-rows", type=int, default=SIZES[-1], help="largest queue to pull from")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    asked = parser.parse_args()
    with ThrowawayServer() as server:
        of_rates = rates(server, asked.units, asked.jobs, asked.repeats)
        sizes = [size for size in SIZES if size <= asked.most_rows]
        costs = [asyncio.run(pull_cost(server, rows, owners)) for rows in sizes for owners in (1, 1000)]
    versions = f"procrastinate {procrastinate.__version__} over psycopg {psycopg.__version__} ({psycopg.pq.__impl__})"
    if asked.json:
        found = {"versions": versions, "rates": [*map(asdict, of_rates)], "pulls": [*map(asdict, costs)]}
        print(json.dumps(found, indent=2))
    else:
        console = Console(width=120)  # figures are not to be cut short where it is no terminal
        console.print(table_of_rates(of_rates), versions, table_of_costs(costs))
    return int(any("Index" not in scan for cost in costs for scan in cost.scans))


if __name__ == "__main__":
    sys.exit(main())
