"""`volery doctor`: whether this machine can do the work, and what to do where it cannot."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from volery.cli.checks import Check, Verdict, run_checks
from volery.cli.exits import ExitCode
from volery.cli.output import messages, tables, write_json

_STYLES = {Verdict.OK: "green", Verdict.WARNING: "yellow", Verdict.FAILED: "red"}


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Check Python, the machine, the accelerator, packages, models, the job store and settings.

    Exits with 0 unless something that is required cannot be used.
    """
    with messages().status("looking") as status:
        checks = []
        for check in run_checks():
            checks.append(check)
            status.update(f"looking: {check.name} is {check.verdict}")
    ok = all(check.verdict is not Verdict.FAILED for check in checks)
    if as_json:
        write_json({"ok": ok, "checks": [dataclasses.asdict(check) for check in checks]}, indent=2)
    else:
        tables().print(_as_table(checks))
    if not ok:
        raise typer.Exit(ExitCode.CONFIGURATION)


def _as_table(checks: list[Check]) -> Table:
    table = Table("check", "verdict", "found, and what to do", box=None, pad_edge=False)
    for check in checks:
        style = _STYLES[check.verdict]
        found = Text(check.found, overflow="fold")
        if check.advice:
            found.append(f"\n→ {check.advice}", style)
        table.add_row(Text(check.name, no_wrap=True), Text(check.verdict, style), found)
    return table
