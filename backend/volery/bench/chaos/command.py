"""The harness as a command: one run, one table, and an exit code."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from volery.bench.chaos.plan import Plan
from volery.bench.chaos.run import Outcome, run

_EXAMPLES = 5


def chaos(
    workers: Annotated[int, typer.Option(min=1, help="Worker processes.")] = 4,
    units: Annotated[int, typer.Option(min=10, help="Units.")] = 2000,
    seconds: Annotated[float, typer.Option(min=1, help="How long the faults go on.")] = 120.0,
    seed: Annotated[int, typer.Option(min=0, help="Of the order of the faults.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Kill, stop and cut off workers on a throwaway PostgreSQL, then check what became of every unit.

    The exit code is 1 where a promise was broken.
    """
    outcome = run(Plan(workers=workers, units=units, seconds=seconds, seed=seed))
    if as_json:
        json.dump({**asdict(outcome), "violations": outcome.violations}, sys.stdout, indent=2)
        sys.stdout.write("\n")
    else:
        Console().print(_table(outcome))
    raise typer.Exit(int(outcome.violations > 0))


def _table(outcome: Outcome) -> Table:
    plan = outcome.plan
    title = f"{plan.workers} workers, {plan.units} units, {plan.seconds:g} s of faults, seed {plan.seed}"
    table = Table("", "number", "violations", title=title)
    table.columns[1].justify = table.columns[2].justify = "right"
    for name, number in outcome.faults.items():
        table.add_row(name, str(number), "")
    table.add_section()
    for state, number in outcome.units.items():
        table.add_row(f"units {state}", str(number), "")
    for ending, number in outcome.leases.items():
        table.add_row(f"leases ended: {ending}", str(number), "")
    table.add_row("seconds from the last fault to the last end", f"{outcome.settled_s:.1f}", "")
    table.add_section()
    for finding in outcome.findings:
        broken = len(finding.violations)
        table.add_row(finding.promise, str(finding.looked_at), str(broken), style="bold red" if broken else "green")
        for violation in finding.violations[:_EXAMPLES]:
            table.add_row(f"  {violation}", "", "", style="red")
    return table
