"""How PostgreSQL runs the statements that every worker sends all the time."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from queue_database import Database
from sqlalchemy import Executable

from volery.bench.queries import explain, scans
from volery.queue import statements
from volery.queue.engine import create_engine, parse_url

PULL = {"process": "w", "limit": 8, "suspects": 2, "lease_seconds": 60.0}
HOLD = {
    "leases": '[{"token": "a"}, {"token": "b"}]',
    "lease_seconds": 60.0,
    "why": "audio_changed",
    "message": "x",
    "ending": "x",
}
CHARGE = {"max_attempts": 3, "retry_base": 5.0, "retry_max": 600.0}


async def plan_of(database: Database, statement: Executable, parameters: dict[str, object]) -> set[str]:
    engine = create_engine(parse_url(database.url))
    async with engine.connect() as conn:
        plan = await explain(conn, statement, parameters)
    await engine.dispose()
    return set(scans(plan))


async def fill(database: Database, rows: int, owners: int) -> None:
    await database.execute(
        "INSERT INTO units (key, owner, priority, audio_uri, privacy_generation, state, rank, submitted_at,"
        " available_at, attempts, suspicion, quarantines, alone) SELECT n, n % "
        f"{owners}, 0, 'file:///a', 0, 'ready', n / {owners}, 0, 0, 0, 0, 0, false FROM generate_series(1, {rows}) n"
    )
    await database.execute(
        "INSERT INTO grants (token, unit_id, worker, granted_at, ended_at, ended_as, alone, priority, rank)"
        " SELECT id, id, 'w', 0, 0, 'done', false, 0, 0 FROM units"
    )
    await database.execute("ANALYZE")


@pytest.mark.parametrize("owners", [1, 1000])
@pytest.mark.parametrize("rows", [1000, 20_000])
async def test_a_pull_reads_indexes_alone(postgresql: Callable[[], Database], rows: int, owners: int) -> None:
    database = postgresql()
    await fill(database, rows, owners)
    used = await plan_of(database, statements.PULL_AND_RECORD, PULL)
    assert all("Index" in scan for scan in used), used
    assert "Index Scan of units by units_queue" in used


@pytest.mark.parametrize("name", ["RENEW", "COMPLETE", "REFUND", "FAIL", "REAP_SHARED", "REAP_ALONE"])
async def test_what_holders_and_reapers_say_reads_indexes_alone(postgresql: Callable[[], Database], name: str) -> None:
    database = postgresql()
    await fill(database, 20_000, 1)  # of a small table PostgreSQL rightly reads all
    said = getattr(statements, name)
    used = await plan_of(database, getattr(said, "at_once", said), {**HOLD, **CHARGE})
    assert all("Index" in scan for scan in used), used
