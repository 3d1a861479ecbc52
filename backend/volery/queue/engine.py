"""Reaching the database: its URL and its connections."""

from __future__ import annotations

import asyncio
import os
import re
import sqlite3
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, ExceptionContext, event, make_url
from sqlalchemy.exc import ArgumentError, DisconnectionError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import ConnectionPoolEntry

from volery.queue.errors import SETTING, describe, store_errors
from volery.units import NoStoreError, StoreError

_DRIVERS = {"sqlite": "sqlite+aiosqlite", "postgresql": "postgresql+asyncpg", "postgres": "postgresql+asyncpg"}
_USER = re.compile(r"[^:/]*(?::[^@]*)?@")  # where SQLAlchemy ends it
_OPTION = re.compile(r"[?&]\w+=")
_BUSY_SECONDS = 60.0  # how long one process waits while others write
_WRITING = "volery_writing"
_CONNECT_SECONDS = 10.0
_LIBPQ_NAMES = {"sslmode": "ssl"}  # as asyncpg has them
_SERVER_SETTINGS = {
    "application_name": "volery",
    "jit": "off",  # compiling a pull takes longer than the pull
    "statement_timeout": "30s",
    "idle_in_transaction_session_timeout": "60s",  # a stalled process must not keep its locks
}


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
    if backend == "sqlite" and (url.username or url.host):
        raise StoreError(f"{SETTING} has a host, and a file has none: write sqlite:////folder/volery.db, four slashes")
    if backend != "sqlite" and _is_cut_wrongly(text):  # a message may show what is taken for the host or the database
        raise StoreError(
            f"{SETTING} cannot be read: percent-encode special characters in its user, its password and its options "
            "(@ as %40, / as %2F, ? as %3F, # as %23)"
        )
    if backend == "sqlite" and url.database in (None, "", ":memory:"):
        raise StoreError(f"{SETTING} names no file: a store in memory cannot be shared between connections")
    return url.set(drivername=_DRIVERS[backend])


def _is_cut_wrongly(text: str) -> bool:
    """Whether the user or the password, holding an `@` of its own, ends somewhere else than was meant."""
    rest = text.partition("://")[2]
    user = _USER.match(rest)
    if user is None:
        return "@" in rest.partition("?")[0]
    return "@" in rest[user.end() :] or _OPTION.search(user[0]) is not None


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


def require_file(url: URL) -> None:
    """Leave a SQLite file that is missing as it is.

    Raises:
        NoStoreError: it is missing, or its folder may not be looked into.
    """
    if path := _missing_file(url):
        raise NoStoreError(
            path, f"{describe(url)} does not exist: correct {SETTING}, or submit units first, which creates a store"
        )


def missing_store(text: str) -> Path | None:
    """The file of a SQLite store that is not there, or whose folder may not be looked into; of others, none.

    Raises:
        StoreError: as for `parse_url`.
    """
    url = parse_url(text)
    return _missing_file(url) if is_embedded(url) else None


def _missing_file(url: URL) -> Path | None:
    database = str(url.database)
    return None if database.startswith("file:") or os.path.exists(database) else Path(database)


def create_engine(url: URL) -> AsyncEngine:
    """An engine whose errors show no parameters; connections open when they are first used.

    Raises:
        StoreError: the driver is not installed.
    """
    try:
        if is_embedded(url):
            return _sqlite_engine(url)
        return _postgresql_engine(url)
    except ImportError as error:
        raise StoreError(
            f"the driver for PostgreSQL is missing ({error.name}): pip install 'volery[postgres]'"
        ) from error


def writing(engine: AsyncEngine) -> AsyncEngine:
    """The same engine, its transactions announcing from the start that they write."""
    return engine.execution_options(**{_WRITING: True})


def committing(engine: AsyncEngine) -> AsyncEngine:
    """The same engine; on PostgreSQL each of its statements commits by itself, without further round trips."""
    if engine.dialect.name != "postgresql":
        return engine
    return engine.execution_options(isolation_level="AUTOCOMMIT")


def _sqlite_engine(url: URL) -> AsyncEngine:
    # isolation_level None: sqlite3 issues no BEGIN of its own, `_begin` does.
    arguments: dict[str, Any] = {"timeout": _BUSY_SECONDS, "isolation_level": None}
    engine = create_async_engine(url, hide_parameters=True, connect_args=arguments)
    event.listen(engine.sync_engine, "connect", _enforce_foreign_keys)
    event.listen(engine.sync_engine, "begin", _begin)
    return engine


def _postgresql_engine(url: URL) -> AsyncEngine:
    query = {_LIBPQ_NAMES.get(name, name): value for name, value in url.query.items()}
    named = {name: str(query.pop(name)) for name in ("application_name",) if name in query}
    arguments = {"server_settings": _SERVER_SETTINGS | named, "timeout": _CONNECT_SECONDS}
    engine = create_async_engine(url.set(query=query), hide_parameters=True, connect_args=arguments)
    event.listen(engine.sync_engine, "checkout", _refuse_closed)
    event.listen(engine.sync_engine, "handle_error", _trust_none_of_its_age)
    return engine


def _refuse_closed(connection: Any, entry: ConnectionPoolEntry, proxy: Any) -> None:
    """Let the pool replace a connection that is known to be gone; a ping would cost a round trip every time."""
    if connection.driver_connection.is_closed():
        raise DisconnectionError


def _trust_none_of_its_age(context: ExceptionContext) -> None:
    """Have the pool replace all connections that are open, where one was waited for in vain.

    A server that vanished with its host, as in a failover, closes none of them: each would be waited for in turn.
    """
    if isinstance(context.original_exception, asyncio.CancelledError):
        context.invalidate_pool_on_disconnect = True


def _enforce_foreign_keys(connection: Any, entry: ConnectionPoolEntry) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.close()


def _begin(conn: Connection) -> None:
    # A transaction that reads first and then writes fails at once when another wrote in between,
    # however long it may wait; one that begins as a writer waits its turn.
    mode = "IMMEDIATE" if conn.get_execution_options().get(_WRITING) else "DEFERRED"
    conn.exec_driver_sql(f"BEGIN {mode}")
