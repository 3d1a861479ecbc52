"""`volery demo`: the real worker on real audio, with nothing to set up."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from volery.cli.demo_audio import CONVERSATION, demo_units
from volery.cli.demo_view import conversation, outcome_table
from volery.cli.environment import load_settings, override, quiet_logs
from volery.cli.formats import make_folder, write_export
from volery.cli.output import messages, tables
from volery.cli.progress import shown_progress
from volery.cli.running import Outcome, PrivateRun, leave_early, run_privately
from volery.export import Format, file_name
from volery.results import UnitResult


def demo(
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder to write results to.")] = Path("demo-out"),
) -> None:
    """Transcribe a real conversation, and four other units, with the models in installed packages.

    Beside the conversation there are a copy of it as Opus, silence, a unit too short for any word
    and a broken file. The job store is private and gone afterwards; the results stay.
    """
    override(models="embedded")
    make_folder(output)
    with tempfile.TemporaryDirectory(prefix="volery-demo-") as folder:
        run, summary = _run(Path(folder))
    leave_early(run.ending)
    _show(run.outcomes, summary)
    _write(run.outcomes, output)


def _run(folder: Path) -> tuple[PrivateRun, str]:
    settings = load_settings()
    with messages().status("making audio"):
        units = demo_units(folder)
    with shown_progress() as progress:
        quiet_logs(settings)
        run = asyncio.run(run_privately(units, settings, folder, progress))
    return run, progress.summary


def _show(outcomes: list[Outcome], summary: str) -> None:
    console = tables()
    console.print(outcome_table(outcomes))
    results = {outcome.record.unit.key: outcome.result for outcome in outcomes}
    if spoken := results.get(CONVERSATION):
        console.print(conversation(spoken))
    console.print(f"\n{summary}")


def _write(outcomes: list[Outcome], output: Path) -> None:
    done: list[UnitResult] = [outcome.result for outcome in outcomes if outcome.result]
    for result in done:
        for format in Format:
            write_export(result, format, output / file_name(result.key, format))
    tables().print(f"results of {len(done)} units are in {output}/")
