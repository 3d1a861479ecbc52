"""The schema's version: which ones this code runs on, and how a store is brought up to its own.

Migrations expand before they contract, so code runs on its own schema and on the next one, and
an image can be rolled back after the store was upgraded.
"""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import aiosqlite
from sqlalchemy import URL, Connection, column, inspect, select, table
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from volery.queue.dialects import take_time, take_turns
from volery.queue.engine import create_engine, is_embedded, make_file, parse_url, writing
from volery.queue.errors import describe, store_errors
from volery.units import StoreError

SCHEMA_VERSION = 2
"""The newest migration in `migrations/versions`; they are numbered from 1."""

VERSION_TABLE = "volery_schema"
_VERSION = table(VERSION_TABLE, column("version_num"))
_MIGRATIONS = Path(__file__).parent / "migrations"
_WAL_TRIES = 100
_WAL_PAUSE_S = 0.05


async def check(conn: AsyncConnection, url: URL) -> None:
    """Refuse a store whose schema this code does not run on.

    Raises:
        StoreError: the schema is older, or newer by more than one; the message says what to do.
    """
    version = await conn.run_sync(_version)
    if version < SCHEMA_VERSION:
        found = f"schema {version}" if version else "no schema"
        raise StoreError(f"{describe(url)} has {found}, this version needs {SCHEMA_VERSION}: run `volery db upgrade`")
    if version > SCHEMA_VERSION + 1:
        raise StoreError(
            f"{describe(url)} has schema {version}, this version runs on {SCHEMA_VERSION} and {SCHEMA_VERSION + 1}: "
            "use a newer version of Volery"
        )


def upgrade(url: str) -> int:
    """Bring a store up to this version's schema, creating it where there is none; safe to repeat.

    Returns the schema that was found, 0 where there was none.

    Raises:
        StoreError: the store cannot be used, or is newer than this version runs on.
    """
    return asyncio.run(_upgrade(parse_url(url)))


async def _upgrade(url: URL) -> int:
    if is_embedded(url):
        make_file(url)
    engine = create_engine(url)
    try:
        with store_errors(url):
            return await ensure(engine, url)
    finally:
        await engine.dispose()


async def ensure(engine: AsyncEngine, url: URL, *, create: bool = True) -> int:
    """Upgrade where the schema is older than this version's, then check; processes take turns.

    Where there is none, one is made only to `create` it. Returns the schema that was found, 0 where
    there was none.
    """
    if not create:
        async with engine.connect() as conn:
            if not await conn.run_sync(_version):
                await check(conn, url)
    if is_embedded(url):
        await _use_wal(engine)
    async with engine.connect() as conn:
        version = await conn.run_sync(_version)
    if version < SCHEMA_VERSION:
        async with writing(engine).begin() as conn:
            await take_time(conn)
            await take_turns(conn, "upgrade")
            await conn.run_sync(_migrate)
    async with engine.connect() as conn:
        await check(conn, url)
    return version


def _version(conn: Connection) -> int:
    """The store's schema; 0 where there is none."""
    if not inspect(conn).has_table(VERSION_TABLE):
        return 0
    return int(conn.scalar(select(_VERSION.c.version_num)) or 0)


async def _use_wal(engine: AsyncEngine) -> None:
    """Let readers and one writer work at once; the file remembers it.

    SQLite does not wait for its turn to change the journal mode, so this asks again.
    """
    for left in reversed(range(_WAL_TRIES)):
        try:
            async with engine.connect() as conn:
                await _outside_transactions(conn, "PRAGMA journal_mode = WAL")
                return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or not left:
                raise
        await asyncio.sleep(_WAL_PAUSE_S)


async def _outside_transactions(conn: AsyncConnection, statement: str) -> None:
    driver = (await conn.get_raw_connection()).driver_connection
    assert isinstance(driver, aiosqlite.Connection)
    await driver.execute_fetchall(statement)


def _migrate(conn: Connection, to: str = "head") -> None:
    # Alembic is imported where it is needed: opening an up-to-date store goes without.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = conn
    config.attributes["version_table"] = VERSION_TABLE
    command.upgrade(config, to)
