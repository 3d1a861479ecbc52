"""A receipt as tables for a terminal or a text file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table

from volery.bench.receipt import ArmRecord, Receipt, Spread

_FILE_WIDTH = 140
_MIB = 1 << 20


def print_receipt(receipt: Receipt, console: Console) -> None:
    """What was compared, the objective, where time and memory went, and where asked and ran differ."""
    console.print(heading(receipt))
    for table in (_objective(receipt), _times(receipt), _stages(receipt), _memory(receipt)):
        console.print()
        console.print(table)
    for line in remarks(receipt):
        console.print(line)


def write_tables(receipt: Receipt, path: Path) -> None:
    """The same in a file."""
    with path.open("w", encoding="utf-8") as file:
        print_receipt(receipt, Console(file=file, width=_FILE_WIDTH, highlight=False))


def heading(receipt: Receipt) -> str:
    """What was compared, in one line."""
    device = f"simulated {receipt.profile}" if receipt.profile else "real models"
    audio_s = receipt.arms[0].runs[0].audio_seconds if receipt.arms else 0.0
    repeats = f"{receipt.repeats} repeat{'s' if receipt.repeats > 1 else ''}"
    state = "" if receipt.complete else ", not complete"
    return f"{device}, {receipt.units} units, {audio_s:.0f} s of audio, {repeats}{state}, simulated IO {receipt.io}"


def remarks(receipt: Receipt) -> Iterator[str]:
    """Where an arm did not run as it was asked to, and units that failed."""
    for arm in receipt.arms:
        for difference in arm.differences:
            yield f"{arm.name}: {difference}"
        if captures := sum(run.graph_captures for run in arm.runs):
            yield f"{arm.name}: {captures} CUDA graphs were captured while it was timed"
        for failed in arm.failed_units:
            yield f"{arm.name}, repeat {failed.repeat}: unit {failed.key} ended {failed.state}: {failed.reason}"


def _objective(receipt: Receipt) -> Table:
    base = receipt.arms[0].name if receipt.arms else ""
    table = _table("arm", "audio-h per GPU-h", "least–most", f"ratio to {base}", "least–most")
    if receipt.profile:
        table.add_column("ceiling", justify="right")
    for arm in receipt.arms:
        objective, ratio = arm.audio_hours_per_gpu_hour, arm.ratio
        row = [f"{objective.median:.2f}", _range(objective, 2), f"{ratio.median:.3f}", _range(ratio, 3)]
        table.add_row(arm.name, *row, *([f"{arm.ceiling:.1f}"] if arm.ceiling else []))
    return table


def _times(receipt: Receipt) -> Table:
    table = _table("seconds", "GPU section", "GPU busy", "held idle", "wall", "GPU idle, work waits", "of wall")
    for arm in receipt.arms:
        times = (
            arm.gpu_section_seconds,
            arm.gpu_busy_seconds,
            arm.gpu_held_idle_seconds,
            arm.wall_seconds,
            arm.gpu_idle_seconds,
        )
        table.add_row(arm.name, *(f"{one.median:.2f}" for one in times), f"{100 * arm.gpu_idle_share.median:.1f} %")
    return table


def _stages(receipt: Receipt) -> Table:
    names = ("vad", "diarize", "asr", "admission", "gpu_wait", "fetch_decode", "publish")
    table = _table("stages, s", *names)
    for arm in receipt.arms:
        table.add_row(arm.name, *(f"{arm.stage_seconds[name].median:.2f}" for name in names))
    return table


def _memory(receipt: Receipt) -> Table:
    cuda = any(arm.cuda_peak_bytes for arm in receipt.arms)
    table = _table("memory", "peak RSS, MiB", *(["CUDA, MiB"] if cuda else []), "decode budget held, s")
    for arm in receipt.arms:
        table.add_row(arm.name, *_mebibytes(arm, cuda=cuda), f"{arm.budget_high_water_seconds.most:.0f}")
    return table


def _mebibytes(arm: ArmRecord, *, cuda: bool) -> list[str]:
    found = [arm.peak_rss_bytes, *([arm.cuda_peak_bytes] if cuda else [])]
    return [f"{one.most / _MIB:.0f}" if one else "" for one in found]


def _table(first: str, *columns: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column(first, no_wrap=True)
    for column in columns:
        table.add_column(column, justify="right")
    return table


def _range(spread: Spread, digits: int) -> str:
    return f"{spread.least:.{digits}f}–{spread.most:.{digits}f}"
