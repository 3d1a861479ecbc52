"""How PostgreSQL means to run a statement of the job store."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from sqlalchemy import Executable
from sqlalchemy.ext.asyncio import AsyncConnection


async def explain(
    conn: AsyncConnection, statement: Executable, parameters: Mapping[str, Any], *, run: bool = False
) -> dict[str, Any]:
    """The plan of a statement as PostgreSQL describes it in JSON, with the times where it is also run."""
    compiled: Any = statement.compile(dialect=conn.dialect)  # type: ignore[attr-defined]
    values = compiled.construct_params(dict(parameters))
    ordered = tuple(values[name] for name in compiled.positiontup)
    options = "ANALYZE, BUFFERS, FORMAT JSON" if run else "FORMAT JSON"
    answer = (await conn.exec_driver_sql(f"EXPLAIN ({options}) {compiled}", ordered)).scalar_one()
    plan: dict[str, Any] = (json.loads(answer) if isinstance(answer, str) else answer)[0]
    return plan


def scans(plan: Mapping[str, Any]) -> Iterator[str]:
    """The scans of tables in a plan: `Index Scan of units by units_queue`, `Seq Scan of units`, …"""
    node = plan.get("Plan", plan)
    parts = node.get("Plans", ())
    if "Relation Name" in node and node["Node Type"] != "ModifyTable":
        # The rows that a bitmap names are found by the index below it.
        by = next((one for one in (node, *parts) if "Index Name" in one), None)
        yield f"{node['Node Type']} of {node['Relation Name']}" if by is None else _by_index(node, by)
    for part in parts:
        yield from scans(part)


def _by_index(node: Mapping[str, Any], by: Mapping[str, Any]) -> str:
    return f"{by['Node Type']} of {node['Relation Name']} by {by['Index Name']}"
