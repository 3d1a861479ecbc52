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
    if "Relation Name" in node and node["Node Type"] != "ModifyTable":
        by = f" by {node['Index Name']}" if "Index Name" in node else ""
        yield f"{node['Node Type']} of {node['Relation Name']}{by}"
    for part in node.get("Plans", ()):
        yield from scans(part)
