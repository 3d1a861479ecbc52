"""`volery status`: what the job store holds."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

import typer
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from volery.cli.exits import UsageError
from volery.cli.output import tables, write_json
from volery.cli.stores import with_store
from volery.queue import Counts, JobStore, UnitRecord
from volery.units import UnitState

_FAILURES = 10
_EVERY_SECONDS = 2.0
_FAILED = (UnitState.REJECTED, UnitState.DEAD)


@dataclass(frozen=True)
class Status:
    """The queue at one moment, and the units that failed last, latest first."""

    counts: Counts
    failures: list[UnitRecord]


def status(
    watch: Annotated[bool, typer.Option("--watch", help="Go on showing it until Ctrl-C.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show units by state, the age of the oldest that could be leased, and the latest failures."""
    if watch and as_json:
        raise UsageError("--watch is for a person and --json for a program: choose one")
    if watch and not sys.stdout.isatty():
        raise UsageError("--watch needs a terminal: elsewhere, ask for --json again and again")
    if watch:
        with contextlib.suppress(KeyboardInterrupt):
            with_store(_watch)
        return
    now = with_store(read_status)
    if as_json:
        write_json(_as_json(now))
    else:
        tables().print(_as_table(now))


async def read_status(store: JobStore) -> Status:
    """The status of a store."""
    return Status(await store.counts(), await store.latest(_FAILED, _FAILURES))


async def _watch(store: JobStore) -> None:
    with Live(console=tables(), auto_refresh=False) as live:
        while True:
            live.update(_as_table(await read_status(store)), refresh=True)
            await asyncio.sleep(_EVERY_SECONDS)


def _as_json(now: Status) -> dict[str, Any]:
    return {
        "units": {state.value: now.counts.by_state.get(state, 0) for state in UnitState},
        "available": now.counts.available,
        "backing_off": now.counts.backing_off,
        "oldest_available_s": now.counts.oldest_available_s,
        "recent_failures": [
            {
                "key": record.unit.key,
                "state": record.state.value,
                "reason": record.reason,
                "error": record.error,
                "attempts": record.attempts,
                "finished_at": record.finished_at,
            }
            for record in now.failures
        ],
    }


def _as_table(now: Status) -> Group:
    table = Table("state", "units", box=None, pad_edge=False)
    table.columns[1].justify = "right"
    for state in UnitState:
        table.add_row(state.value, str(now.counts.by_state.get(state, 0)))
    lines: list[Text | Table] = [table, Text(_ready_line(now.counts))]
    if now.failures:
        lines += [Text("\nlatest failures", "bold"), _failures_table(now.failures)]
    return Group(*lines)


def _ready_line(counts: Counts) -> str:
    oldest = f", the oldest for {counts.oldest_available_s:.0f} s" if counts.oldest_available_s is not None else ""
    return f"{counts.available} could be leased now{oldest}; {counts.backing_off} back off"


def _failures_table(failures: list[UnitRecord]) -> Table:
    table = Table("when", "unit", "why", box=None, pad_edge=False)
    table.columns[1].overflow = table.columns[2].overflow = "fold"
    for record in failures:
        when = datetime.fromtimestamp(record.finished_at).strftime("%m-%d %H:%M:%S") if record.finished_at else ""
        why = Text.assemble((f"{record.state}: {record.reason}", "red"), f"\n{record.error}")
        table.add_row(Text(when), Text(record.unit.key), why)
    return table
