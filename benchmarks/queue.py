"""The job store on PostgreSQL: units leased and completed a second beside procrastinate, and what a pull costs.

    python benchmarks/queue.py [--units 4000] [--jobs 1000] [--most-rows 1000000] [--json]

Both libraries use the same throwaway server with its default durability (fsync and synchronous
commit on), one after the other in the same run. A worker here leases and completes and does
nothing else: what is measured is the queue.
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

LANES = 2
PULLS = 200
SIZES = (1_000, 10_000, 100_000, 1_000_000)
PROCESSES = (1, 4)
Worker = Callable[[str, int, Any, Any], None]
"""The main function of a worker process: its database, its batch, the start for all, and where to say how it went."""

_FILL = """INSERT INTO units (key, owner, priority, audio_uri, privacy_generation, state, rank, submitted_at,
 available_at, attempts, suspicion, quarantines, alone)
SELECT 'unit-' || n, 'owner-' || n % {owners}, 0, 'gs://bucket/audio/' || n || '.wav', 0, 'ready', n / {owners} + 1,
 0, 0, 0, 0, 0, false FROM generate_series(0, {rows} - 1) n"""


@dataclass(frozen=True)
class Rate:
    """Units leased and completed a second by some processes that took `batch` at a time."""

    contender: str
    processes: int
    batch: int
    units: int
    per_second: float


@dataclass(frozen=True)
class PullCost:
    """What a pull of eight took at the client, and its statement in the server, in milliseconds."""

    rows: int
    owners: int
    median_ms: float
    p95_ms: float
    server_ms: float
    scans: tuple[str, ...]


def volery_worker(url: str, flight: int, start: Any, said: Any) -> None:
    """Two lanes that pull flights and complete them."""

    async def lane(store: JobStore, worker: str) -> None:
        while leases := await store.pull(worker, flight, 120.0):
            results = [Publication(lease.token, f"results/{lease.token}", ResultClass.SPEECH, 1.0) for lease in leases]
            await store.complete(results)

    async def work() -> None:
        store = await opened(url)
        worker = multiprocessing.current_process().name
        await store.counts()  # both connect before the start
        start.wait()
        began = time()
        await asyncio.gather(*(lane(store, worker) for _ in range(LANES)))
        said.put((began, time()))
        await store.close()

    asyncio.run(work())


def procrastinate_worker(url: str, concurrency: int, start: Any, said: Any) -> None:
    """A worker of procrastinate that ends when there is no job left."""
    logging.disable(logging.CRITICAL)

    async def work() -> None:
        app = procrastinate_app(url)
        async with app.open_async():
            start.wait()
            began = time()
            await app.run_worker_async(
                wait=False, concurrency=concurrency, listen_notify=False, install_signal_handlers=False
            )
            said.put((began, time()))

    asyncio.run(work())


async def nothing(number: int) -> None:
    """The job."""


def procrastinate_app(url: str) -> procrastinate.App:
    """An app with the one task, over a database."""
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url, min_size=1, max_size=4))
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


def measure_rate(contender: str, worker: Worker, url: str, processes: int, batch: int, units: int) -> Rate:
    """Run worker processes over a filled queue, from a common start to the last one's end."""
    context = multiprocessing.get_context("spawn")
    start, said = context.Barrier(processes), context.Queue()
    started = [context.Process(target=worker, args=(url, batch, start, said)) for _ in range(processes)]
    for process in started:
        process.start()
    times = [said.get() for _ in started]
    for process in started:
        process.join()
    seconds = max(end for _, end in times) - min(began for began, _ in times)
    return Rate(contender, processes, batch, units, units / seconds)


def rates(server: ThrowawayServer, units: int, jobs: int) -> list[Rate]:
    """Both contenders, each with its default and a larger batch, with one process and with four."""
    found = []
    for processes in PROCESSES:
        for flight in (8, 32):
            url = server.url(server.create_database())
            upgrade(url)
            asyncio.run(fill_volery(url, units))
            found.append(measure_rate("volery", volery_worker, url, processes, flight, units))
        for concurrency in (1, 8):
            url = server.url(server.create_database())
            asyncio.run(fill_procrastinate(url, jobs))
            found.append(measure_rate("procrastinate", procrastinate_worker, url, processes, concurrency, jobs))
    return found


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


def table_of_rates(found: list[Rate]) -> Table:
    """Rates, and how many times procrastinate's best of as many processes each is."""
    table = Table("", "processes", "at a time", "units", "units/s", "× procrastinate", title="leased and completed")
    for column in table.columns[1:]:
        column.justify = "right"
    for rate in found:
        others = [one.per_second for one in found if one.processes == rate.processes and one.contender != "volery"]
        times = f"{rate.per_second / max(others):.1f}" if rate.contender == "volery" else ""
        table.add_row(
            rate.contender, str(rate.processes), str(rate.batch), str(rate.units), f"{rate.per_second:.0f}", times
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
    parser.add_argument("--most-rows", type=int, default=SIZES[-1], help="largest queue to pull from")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    asked = parser.parse_args()
    with ThrowawayServer() as server:
        of_rates = rates(server, asked.units, asked.jobs)
        sizes = [size for size in SIZES if size <= asked.most_rows]
        costs = [asyncio.run(pull_cost(server, rows, owners)) for rows in sizes for owners in (1, 1000)]
    versions = f"procrastinate {procrastinate.__version__} over psycopg {psycopg.__version__} ({psycopg.pq.__impl__})"
    if asked.json:
        found = {"versions": versions, "rates": [*map(asdict, of_rates)], "pulls": [*map(asdict, costs)]}
        print(json.dumps(found, indent=2))
    else:
        console = Console()
        console.print(table_of_rates(of_rates), versions, table_of_costs(costs))
    return int(any("Index" not in scan for cost in costs for scan in cost.scans))


if __name__ == "__main__":
    sys.exit(main())
