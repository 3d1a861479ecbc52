"""`volery demo`: the real worker on real audio, with nothing to set up."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from volery.cli.demo_audio import CONVERSATION, DIGITS, demo_units, digits_unit
from volery.cli.demo_digits import compare, said_digits
from volery.cli.demo_view import conversation, heading, outcome_table
from volery.cli.environment import load_settings, quiet_logs
from volery.cli.formats import make_folder, write_export
from volery.cli.output import messages, tables
from volery.cli.progress import shown_progress
from volery.cli.running import Outcome, import_app, leave_early, run_privately
from volery.export import Format, file_name
from volery.results import UnitResult
from volery.settings import Settings
from volery.units import Unit


@dataclass(frozen=True)
class Part:
    """What a worker with one ASR model made of its units."""

    outcomes: list[Outcome]
    summary: str

    def result(self, key: str) -> UnitResult | None:
        """The result of a unit, where it has one."""
        return next((outcome.result for outcome in self.outcomes if outcome.record.unit.key == key), None)


def demo(
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder to write results to.")] = Path("demo-out"),
) -> None:
    """Transcribe two conversations, and four other units, with the models in installed packages.

    Whisper hears a real telephone conversation; beside it there are a copy of it as Opus, silence,
    a unit too short for any word and a broken file. Parakeet TDT, in a pocket edition that knows
    the ten digits and nothing else, hears two synthetic voices read digits, and is compared with
    what they really said. The job stores are private and gone afterwards; the results stay.
    """
    make_folder(output)
    with tempfile.TemporaryDirectory(prefix="volery-demo-") as folder:
        parts = run_parts(Path(folder))
    show(parts, tables())
    _write(parts, output)


def run_parts(folder: Path) -> list[Part]:
    """Run both parts of the demo, one after the other, with all that they need in `folder`."""
    settings = load_settings()
    with messages().status("making audio"):
        units = demo_units(folder)
    whisper = _run(units, _with_asr(settings, "whisper", None), folder / "whisper")
    parakeet = _run([digits_unit()], _with_asr(settings, "parakeet", "pocket"), folder / "parakeet")
    return [whisper, parakeet]


def _with_asr(settings: Settings, engine: Literal["whisper", "parakeet"], model: str | None) -> Settings:
    """The settings with embedded models, this one for ASR among them."""
    models = {"models": "embedded", "diarization_model": "embedded", "asr_engine": engine, "asr_model": model}
    return replace(settings, speech=settings.speech.model_copy(update=models))


def _run(units: Sequence[Unit], settings: Settings, folder: Path) -> Part:
    folder.mkdir()
    with shown_progress() as progress:
        quiet_logs(settings)
        import_app()
        run = asyncio.run(run_privately(units, settings, folder, progress))
    leave_early(run.ending)
    return Part(run.outcomes, progress.summary)


def show(parts: Sequence[Part], console: Console) -> None:
    """Print what became of every unit, both conversations, and how fast it went."""
    console.print(outcome_table([outcome for part in parts for outcome in part.outcomes]))
    for part in parts:
        if spoken := part.result(CONVERSATION):
            console.print(heading(spoken, "a real telephone call"), conversation(spoken))
        if digits := part.result(DIGITS):
            console.print(heading(digits, "two synthetic voices"), conversation(digits))
            console.print(compare(said_digits(), digits.words).in_words)
        console.print(part.summary, style="dim")


def _write(parts: Sequence[Part], output: Path) -> None:
    done = [outcome.result for part in parts for outcome in part.outcomes if outcome.result]
    for result in done:
        for format in Format:
            write_export(result, format, output / file_name(result.key, format))
    tables().print(f"\nresults of {len(done)} units are in {output}/")
