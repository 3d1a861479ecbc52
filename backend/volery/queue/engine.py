"""Reaching the database: its URL, its connections, and its errors in words a person can act on."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import ConnectionPoolEntry

from volery.units import StoreError

SETTING = "BATCH_PIPELINE_DATABASE_URL"
_DRIVERS = {"sqlite": "sqlite+aiosqlite", "postgresql": "postgresql+asyncpg", "postgres": "postgresql+asyncpg"}
_BUSY_SECONDS = 60.0  # how long one process waits while others write
_WRITING = "volery_writing"
_ADVICE = (
    ("unable to open database file", "check that its folder exists and that this user may write there"),
    ("file is not a database", "the file is something else: name another file"),
    ("readonly", "the store must be writable: check its permissions and how its volume is mounted"),
    ("disk i/o error", "check the disk; WAL needs a local file system, not a network share"),
    ("malformed", "the file is damaged: restore it from a backup"),
    ("disk is full", "make room on its volume"),
    ("locked", "another process has held it for long: find what else has the file open"),
    ("already exists", "it holds tables of something else: give Volery a database of its own"),
    ("no such table", "its tables are missing: run `volery db upgrade`"),
    ('relation "', "its tables are missing: run `volery db upgrade`"),
)
_OTHER_ADVICE = f"check {SETTING} and that the database runs"


def parse_url(text: str) -> URL:
    """A store's URL with the driver this code uses.

    Raises:
        StoreError: it is no URL, or names a database that Volery does not run on.
    """
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise StoreError(
            f"{SETTING} is not a database URL; write sqlite:////folder/volery.db or postgresql://user@host/database"
        ) from None
    backend = url.drivername.partition("+")[0]
    if backend not in _DRIVERS:
        raise StoreError(f"{SETTING} names {backend!r}; Volery runs on sqlite and postgresql")
    if backend == "sqlite" and url.database in (None, "", ":memory:"):
        raise StoreError(f"{SETTING} names no file: a store in memory cannot be shared between connections")
    return url.set(drivername=_DRIVERS[backend])


def describe(url: URL) -> str:
    """The store in a few words, without user, password or options."""
    if url.get_backend_name() == "sqlite":
        return f"the SQLite store {url.database}"
    return f"the PostgreSQL store {url.database} at {url.host or 'its socket'}"


def is_embedded(url: URL) -> bool:
    """Whether the store is a file that Volery makes and upgrades by itself."""
    return url.get_backend_name() == "sqlite"


def make_file(url: URL) -> None:
    """Create a SQLite file and its folder where they are missing.

    Raises:
        StoreError: one of them cannot be created or opened.
    """
    database = str(url.database)
    if database.startswith("file:"):  # SQLite's own kind of URI says by itself what may be created
        return
    with store_errors(url):
        try:
            Path(database).parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            said = f"{describe(url)}: cannot create its folder: {error.strerror}; name another in {SETTING}"
            raise StoreError(said) from error
        # Opened here first: aiosqlite leaves a thread behind that complains when it cannot open a file.
        sqlite3.connect(database).close()


def create_engine(url: URL) -> AsyncEngine:
    """An engine whose errors show no parameters; connections open when they are first used.

    Raises:
        StoreError: the driver is not installed.
    """
    try:
        if is_embedded(url):
            return _sqlite_engine(url)
        return create_async_engine(url, hide_parameters=True, pool_pre_ping=True)
    except ImportError as error:
        raise StoreError(
            f"the driver for PostgreSQL is missing ({error.name}): pip install 'volery[postgres]'"
        ) from error


def writing(engine: AsyncEngine) -> AsyncEngine:
    """The same engine, its transactions announcing from the start that they write."""
    return engine.execution_options(**{_WRITING: True})


def _sqlite_engine(url: URL) -> AsyncEngine:
    # isolation_level None: sqlite3 issues no BEGIN of its own, `_begin` does.
    arguments: dict[str, Any] = {"timeout": _BUSY_SECONDS, "isolation_level": None}
    engine = create_async_engine(url, hide_parameters=True, connect_args=arguments)
    event.listen(engine.sync_engine, "connect", _enforce_foreign_keys)
    event.listen(engine.sync_engine, "begin", _begin)
    return engine


def _enforce_foreign_keys(connection: Any, entry: ConnectionPoolEntry) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.close()


def _begin(conn: Connection) -> None:
    # A transaction that reads first and then writes fails at once when another wrote in between,
    # however long it may wait; one that begins as a writer waits its turn.
    mode = "IMMEDIATE" if conn.get_execution_options().get(_WRITING) else "DEFERRED"
    conn.exec_driver_sql(f"BEGIN {mode}")


@contextmanager
def store_errors(url: URL) -> Iterator[None]:
    """Turn what drivers raise into `StoreError`s without passwords, statements or parameters."""
    try:
        yield
    except DBAPIError as error:
        raise StoreError(_in_words(url, error.orig or error)) from error
    except (SQLAlchemyError, sqlite3.Error, OSError, OverflowError, UnicodeError) as error:
        raise StoreError(_in_words(url, error)) from error


def _in_words(url: URL, error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    said = lines[0] if lines else type(error).__name__
    advice = next((advice for sign, advice in _ADVICE if sign in said.lower()), _OTHER_ADVICE)
    for secret in filter(None, (url.password, url.query.get("password"))):
        said = said.replace(str(secret), "***")
    return f"{describe(url)} cannot be used: {said}; {advice}"
