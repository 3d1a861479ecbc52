"""What drivers raise, in words that a person can act on."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import URL
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from volery.units import StoreError

SETTING = "BATCH_PIPELINE_DATABASE_URL"

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
    ("password authentication failed", f"correct the user or the password in {SETTING}"),
    (
        "no pg_hba.conf entry",
        "the server does not let this user in from here: ask its administrator, or try ?ssl=require",
    ),
    ('role "', f"correct the user in {SETTING}, or create it on the server"),
    ("permission denied", "let the user read and write Volery's tables: GRANT, or own them"),
    ('database "', f"create it (CREATE DATABASE), or correct its name in {SETTING}, then run `volery db upgrade`"),
    ("read-only transaction", f"it is a standby or set to read only: name the primary in {SETTING}"),
    ("starting up", "the server is on its way up: try again in a moment"),
    ("shutting down", "the server goes down or restarts: try again in a moment"),
    ("administrator command", "the server cut the connection, perhaps in a restart: try again in a moment"),
    ("connection was closed", "the server or the network cut the connection: try again in a moment"),
    ("connection is closed", "the server or the network cut the connection: try again in a moment"),
    ("too many clients", "raise the server's max_connections, run fewer workers, or put a pooler between"),
    ("connection slots", "raise the server's max_connections, run fewer workers, or put a pooler between"),
    ("statement timeout", "the server is overloaded or something holds locks: look into pg_stat_activity"),
    ("did not answer", "the server or the network to it hangs: check that both are well"),
    ("index row", "a key or an owner is too long: PostgreSQL looks up at most 2700 bytes of them"),
    ("unexpected keyword argument", f"{SETTING} has an option that the driver does not know: leave it out"),
)
_OTHER_ADVICE = f"check {SETTING} and that the database runs"


@contextmanager
def store_errors(url: URL) -> Iterator[None]:
    """Turn what drivers raise into `StoreError`s without passwords, statements or parameters."""
    try:
        yield
    except DBAPIError as error:
        raise StoreError(_in_words(url, _original(error))) from error
    except (SQLAlchemyError, sqlite3.Error, OSError, OverflowError, UnicodeError) as error:
        raise StoreError(_in_words(url, error)) from error
    except Exception as error:
        # What asyncpg raises while it connects reaches us as it is, and asyncpg need not be installed.
        if type(error).__module__.partition(".")[0] != "asyncpg" and not _is_odd_option(error):
            raise
        raise StoreError(_in_words(url, error)) from error


def _original(error: DBAPIError) -> BaseException:
    """The driver's own exception: SQLAlchemy's copy of asyncpg's begins with the name of a class."""
    copy = error.orig or error
    return copy.__cause__ or copy


def _is_odd_option(error: BaseException) -> bool:
    return isinstance(error, TypeError) and "unexpected keyword argument" in str(error)


def _in_words(url: URL, error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    said = lines[0] if lines else _silent(error)
    advice = next((advice for sign, advice in _ADVICE if sign in said.lower()), _OTHER_ADVICE)
    if _is_odd_option(error) and "password" in url.query:  # perhaps the rest of one that holds an &
        said = "it has an unknown option"
    for secret in filter(None, (url.password, url.query.get("password"))):
        said = said.replace(str(secret), "***")
    return f"{describe(url)} cannot be used: {said}; {advice}"


def _silent(error: BaseException) -> str:
    return "it did not answer in time" if isinstance(error, TimeoutError) else type(error).__name__


def describe(url: URL) -> str:
    """The store in a few words, without user, password or options."""
    if url.get_backend_name() == "sqlite":
        return f"the SQLite store {url.database}"
    place = f"{url.host}:{url.port}" if url.host and url.port else url.host or "its socket"
    return f"the PostgreSQL store {url.database} at {place}"
