"""Migrations, and which schemas this code runs on."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from queue_database import Database, keys_of, unit
from queue_processes import open_fresh, processes
from sqlalchemy import Connection

from volery import queue
from volery.queue import JobStore, schema, upgrade
from volery.queue.engine import create_engine, parse_url, writing
from volery.queue.schema import SCHEMA_VERSION, VERSION_TABLE
from volery.queue.tables import metadata
from volery.units import StoreError

if TYPE_CHECKING:
    from volery.bench.chaos.server import ThrowawayServer


A_READY_UNIT_OF_SCHEMA_1 = (
    "INSERT INTO units (key, owner, priority, audio_uri, privacy_generation, state, rank, submitted_at, available_at,"
    " attempts, suspicion, quarantines, alone)"
    " VALUES ('old', 'default', 0, 'file:///old', 0, 'ready', 1, 0, 0, 0, 0, 0, false)"
)


async def stamp(database: Database, version: int) -> None:
    await database.execute(f"UPDATE {VERSION_TABLE} SET version_num = '{version}'")


def differences(conn: Connection) -> list[object]:
    context = MigrationContext.configure(conn, opts={"version_table": VERSION_TABLE, "compare_type": True})
    return list(compare_metadata(context, metadata))


def test_upgrade_makes_a_store_from_nothing_and_may_be_repeated(empty_database: Database) -> None:
    upgrade(empty_database.url)
    upgrade(empty_database.url)
    assert asyncio.run(empty_database.execute("SELECT * FROM units")) == []


def test_upgrade_keeps_what_the_store_holds(database: Database) -> None:
    async def submit() -> None:
        store = await database.open()
        await store.submit([unit("a")])
        await store.close()

    async def keys() -> list[str]:
        return [row.key for row in await database.execute("SELECT key FROM units")]

    asyncio.run(submit())
    upgrade(database.url)
    assert asyncio.run(keys()) == ["a"]


async def test_the_migrations_make_the_tables_the_code_uses(store: JobStore, database: Database) -> None:
    engine = create_engine(parse_url(database.url))
    async with engine.connect() as conn:
        found = await conn.run_sync(differences)
    await engine.dispose()
    assert found == []


def test_the_newest_migration_is_the_schema_this_code_names() -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(queue.__file__).parent / "migrations"))
    scripts = ScriptDirectory.from_config(config)
    assert scripts.get_heads() == [str(SCHEMA_VERSION)]
    numbers = [int(script.revision) for script in scripts.walk_revisions()]
    assert numbers == list(range(SCHEMA_VERSION, 0, -1))


async def test_the_next_schema_is_run_on(store: JobStore, database: Database) -> None:
    await stamp(database, SCHEMA_VERSION + 1)
    await store.check()
    again = await database.open()
    await again.submit([unit("a")])
    await again.close()


async def test_a_schema_newer_by_two_is_refused(store: JobStore, database: Database) -> None:
    await stamp(database, SCHEMA_VERSION + 2)
    with pytest.raises(StoreError, match="use a newer version of Volery"):
        await store.check()
    with pytest.raises(StoreError, match=f"has schema {SCHEMA_VERSION + 2}"):
        await database.open()


async def test_an_older_schema_is_refused_until_it_is_upgraded(store: JobStore, database: Database) -> None:
    await stamp(database, SCHEMA_VERSION - 1)
    with pytest.raises(StoreError, match="run `volery db upgrade`"):
        await store.check()


async def test_a_store_without_a_schema_is_refused(store: JobStore, database: Database) -> None:
    await database.execute(f"DROP TABLE {VERSION_TABLE}")
    with pytest.raises(StoreError, match=r"has no schema.*run `volery db upgrade`"):
        await store.check()


def test_upgrade_refuses_what_it_is_too_old_for(database: Database) -> None:
    upgrade(database.url)
    asyncio.run(stamp(database, SCHEMA_VERSION + 2))
    with pytest.raises(StoreError, match="use a newer version of Volery"):
        upgrade(database.url)


def test_processes_may_open_a_fresh_file_at_the_same_moment(sqlite: Database) -> None:
    with processes(4) as pool:
        list(pool.map(open_fresh, [sqlite.url] * 8, range(8)))
    assert len(asyncio.run(sqlite.execute("SELECT * FROM units"))) == 8


def test_processes_may_upgrade_an_empty_database_at_the_same_moment(empty_database: Database) -> None:
    with processes(2) as pool:
        list(pool.map(upgrade, [empty_database.url] * 4))
    assert asyncio.run(empty_database.execute("SELECT * FROM units")) == []


async def test_a_server_s_database_is_never_set_up_unasked(server: ThrowawayServer) -> None:
    with pytest.raises(StoreError, match=r"has no schema.*run `volery db upgrade`"):
        await Database(server.url(server.create_database())).open()


def test_a_store_of_the_schema_before_keeps_its_units_through_an_upgrade(empty_database: Database) -> None:
    async def at_schema_1() -> None:
        engine = create_engine(parse_url(empty_database.url))
        async with writing(engine).begin() as conn:
            await conn.run_sync(schema._migrate, "1")
        await engine.dispose()

    async def granted() -> list[str]:
        store = await empty_database.open()
        keys = keys_of(await store.pull("w", 8, 60))
        await store.close()
        return keys

    if empty_database.url.startswith("sqlite"):
        sqlite3.connect(empty_database.url.removeprefix("sqlite:///")).close()
    asyncio.run(at_schema_1())
    asyncio.run(empty_database.execute(A_READY_UNIT_OF_SCHEMA_1))
    upgrade(empty_database.url)
    assert asyncio.run(granted()) == ["old"]


async def test_a_file_that_is_locked_while_it_turns_to_wal_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")

    async def release(_: float) -> None:
        other.rollback()

    monkeypatch.setattr("volery.queue.engine._BUSY_SECONDS", 0.0)  # SQLite does not wait where two turn at once
    monkeypatch.setattr("volery.queue.schema.asyncio.sleep", release)
    store = await Database(f"sqlite:///{tmp_path / 'store.db'}").open()
    await store.close()
    assert other.execute("PRAGMA journal_mode").fetchall() == [("wal",)]
    other.close()


def test_tasks_may_open_a_store_at_the_same_moment(database: Database) -> None:
    async def run() -> None:
        for store in await asyncio.gather(*(database.open() for _ in range(8))):
            await store.close()

    asyncio.run(run())


def test_opening_an_upgraded_store_needs_neither_alembic_nor_models(database: Database) -> None:
    upgrade(database.url)
    program = (
        "import asyncio, sys\n"
        "from volery.queue import open_store\n"
        "from volery.settings import QueueSettings\n"
        f"store = asyncio.run(open_store(QueueSettings(database_url={database.url!r})))\n"
        "asyncio.run(store.close())\n"
        "print([name for name in ('alembic', 'torch', 'numpy') if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
