"""What SQLite and PostgreSQL say differently, each under one name."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Double, Text, func, select, text
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.expression import FunctionElement
from sqlalchemy.types import NullType


class now(FunctionElement[float]):
    """The database's clock in seconds since the epoch; it moves within a transaction."""

    inherit_cache = True
    type = Double()


class fresh_token(FunctionElement[str]):
    """128 random bits in hexadecimal, different in every row."""

    inherit_cache = True
    type = Text()


class elements(FunctionElement[str]):
    """The elements of a JSON array, a row each: one parameter, however many there are."""

    inherit_cache = True
    name = "elements"


class is_among(FunctionElement[bool]):
    """Whether a column's value is among the few rows of a subquery, each of which is looked up by an index."""

    inherit_cache = True
    type = NullType()  # type: ignore[assignment]  # as a boolean it would read `… = 1` on SQLite, without an index


@compiles(now, "sqlite")
def _now_sqlite(element: now, compiler: Any, **kw: Any) -> str:
    return "((julianday('now') - 2440587.5) * 86400.0)"


@compiles(now, "postgresql")
def _now_postgresql(element: now, compiler: Any, **kw: Any) -> str:
    # now() would stand still inside a transaction.
    return "CAST(extract(epoch from clock_timestamp()) AS double precision)"


@compiles(fresh_token, "sqlite")
def _token_sqlite(element: fresh_token, compiler: Any, **kw: Any) -> str:
    return "lower(hex(randomblob(16)))"


@compiles(fresh_token, "postgresql")
def _token_postgresql(element: fresh_token, compiler: Any, **kw: Any) -> str:
    return "replace(CAST(gen_random_uuid() AS text), '-', '')"


@compiles(elements, "sqlite")
def _elements_sqlite(element: elements, compiler: Any, **kw: Any) -> str:
    return f"json_each({compiler.process(element.clauses, **kw)})"


@compiles(elements, "postgresql")
def _elements_postgresql(element: elements, compiler: Any, **kw: Any) -> str:
    return f"json_array_elements(CAST({compiler.process(element.clauses, **kw)} AS json))"


@compiles(is_among, "sqlite")
def _among_sqlite(element: is_among, compiler: Any, **kw: Any) -> str:
    value, rows = (compiler.process(clause, **kw) for clause in element.clauses)
    return f"{value} IN {rows}"


@compiles(is_among, "postgresql")
def _among_postgresql(element: is_among, compiler: Any, **kw: Any) -> str:
    # IN would let the planner read the whole of a small table instead.
    value, rows = (compiler.process(clause, **kw) for clause in element.clauses)
    return f"{value} = ANY (ARRAY{rows})"


async def take_time(conn: AsyncConnection) -> None:
    """Let this transaction's statements run as long as they need: they touch any number of units."""
    if conn.dialect.name == "postgresql":
        await conn.execute(text("SET LOCAL statement_timeout = 0"))


async def take_turns(conn: AsyncConnection, name: str) -> None:
    """Wait until no other transaction that named `name` is open.

    On SQLite every writing transaction excludes every other, so there is nothing to wait for.
    """
    if conn.dialect.name == "postgresql":
        await conn.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(f"volery:{name}", 0))))
