"""A receipt as a person reads it."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gpu_checks.receipt import Receipt, Status

_STYLES = {Status.PASSED: "green", Status.FAILED: "bold red", Status.NOT_CHECKED: "yellow"}


def show(receipt: Receipt, console: Console) -> None:
    """Print the checks, what ran, and what they come to for CUDA graphs."""
    table = Table("check", "outcome", "found")
    for check in receipt.checks:
        table.add_row(_plain(check.name), _outcome(check.status), Text(check.detail))
    console.print(table)
    for line in (_what_ran(receipt), _verdict(receipt)):
        console.print(line, soft_wrap=True)


def _what_ran(receipt: Receipt) -> Text:
    model = f"{receipt.model.name} ({receipt.model.digest[:12]})" if receipt.model else "no model"
    return Text(f"{receipt.machine.name}, {model}, {receipt.precision}, {receipt.sound.source}")


def _verdict(receipt: Receipt) -> Text:
    line = Text("CUDA graphs: ").append_text(_outcome(receipt.cuda_graphs))
    return line.append(f" ({receipt.cuda_graphs_detail})")


def _outcome(status: Status) -> Text:
    return Text(_plain(status), _STYLES[status])


def _plain(name: str) -> str:
    return name.replace("_", " ")
