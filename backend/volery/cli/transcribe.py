"""`volery transcribe`: files to text in one go, over a private store that is gone afterwards."""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, count
from pathlib import Path, PurePosixPath
from typing import Annotated
from urllib.parse import unquote

import typer

from volery.cli.environment import load_settings, override, quiet_logs
from volery.cli.exits import ExitCode, UsageError
from volery.cli.formats import FORMATS_HELP, make_folder, parse_formats, write_export
from volery.cli.inputs import collect
from volery.cli.output import say_error, write, write_json
from volery.cli.progress import shown_progress
from volery.cli.running import Outcome, PrivateRun, import_app, leave_early, run_privately
from volery.cli.worker import AsrEngine, Models
from volery.export import Format, export
from volery.units import Unit


def transcribe(
    files: Annotated[list[str], typer.Argument(metavar="FILE", help="Audio files, folders or globs.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Folder to write to; without it, text is printed.")
    ] = None,
    formats: Annotated[
        str | None, typer.Option("--format", help=f"{FORMATS_HELP} (default: all with -o, else txt)")
    ] = None,
    models: Annotated[Models | None, typer.Option(help="Where models come from.")] = None,
    asr_engine: Annotated[AsrEngine | None, typer.Option(help="What transcribes.")] = None,
    asr_model: Annotated[str | None, typer.Option(help="pocket, a path or a hub name.")] = None,
    num_speakers: Annotated[int | None, typer.Option(help="How many people speak, if known.")] = None,
    language: Annotated[str | None, typer.Option(help="Language spoken, such as en, if known.")] = None,
) -> None:
    """Transcribe audio files and say who spoke.

    With -o every file is written under its own name: talk.wav becomes talk.srt. No queue is
    needed, and none is touched.
    """
    override(models=models, asr_engine=asr_engine, asr_model=asr_model)
    wanted = parse_formats(formats) if formats else tuple(Format) if output else (Format.TXT,)
    options = {"num_speakers": num_speakers, "language": language}
    found = collect(files, {name: value for name, value in options.items() if value is not None})
    _check_printable(wanted, found.units, output)
    names = output_names(found.units, wanted, output)
    units = [replace(unit, key=name) for unit, name in zip(found.units, names, strict=True)]
    if output:
        make_folder(output)
    run = _run(units)
    for outcome in run.outcomes:
        _deliver(outcome, wanted, output, several=len(units) > 1)
    leave_early(run.ending)
    if any(outcome.result is None for outcome in run.outcomes):
        raise typer.Exit(ExitCode.UNITS_FAILED)


def _check_printable(wanted: Sequence[Format], units: Sequence[Unit], output: Path | None) -> None:
    if output is None and len(wanted) > 1:
        raise UsageError("several formats cannot be printed together; name a folder with -o")
    if output is None and len(units) > 1 and wanted[0] in (Format.SRT, Format.VTT):
        raise UsageError("subtitles of several files cannot be printed together; name a folder with -o")


def output_names(units: Sequence[Unit], wanted: Sequence[Format], output: Path | None) -> list[str]:
    """A file name without extension for each unit: its audio's, made to differ where two are alike.

    `talk.wav` alone becomes `talk`; beside `talk.mp3` it keeps its extension, and where whole
    names are alike, later ones are numbered. Nothing is named so that an export replaces an input.
    """
    audio = [PurePosixPath(unquote(unit.audio_uri.removeprefix("file://"))) for unit in units]
    alike = Counter(path.stem.casefold() for path in audio)
    # The folder itself may be a link: files are compared by what they are once links are followed.
    used = {str(Path(path).resolve()).casefold() for path in audio}
    names = []
    for path in audio:
        for name in _candidates(path, alone=alike[path.stem.casefold()] == 1):
            targets = {str(_target(output, name, format)).casefold() for format in wanted}
            if not targets & used:
                break
        used |= targets
        names.append(name)
    return names


def _candidates(path: PurePosixPath, *, alone: bool) -> Iterator[str]:
    numbered = (f"{path.name}-{number}" for number in count(2))
    return chain([path.stem] if alone else [], [path.name], numbered)


def _target(output: Path | None, name: str, format: Format) -> Path:
    return Path((output or Path()) / f"{name}.{format}").resolve()


def _run(units: Sequence[Unit]) -> PrivateRun:
    settings = load_settings()
    with tempfile.TemporaryDirectory(prefix="volery-") as folder, shown_progress() as progress:
        quiet_logs(settings)
        import_app()
        return asyncio.run(run_privately(units, settings, Path(folder), progress))


def _deliver(outcome: Outcome, wanted: Sequence[Format], output: Path | None, *, several: bool) -> None:
    """Write or print a result, or say why there is none."""
    record, result = outcome.record, outcome.result
    if result is None:
        why = f"{record.reason}: {record.error}" if record.reason else f"left {record.state}"
        say_error(f"{record.unit.key}: {why}")
    elif output is not None:
        for format in wanted:
            write_export(result, format, output / f"{record.unit.key}.{format}")
    elif wanted[0] is Format.JSON:
        write_json(result.model_dump(mode="json", by_alias=True))
    else:
        heading = f"== {record.unit.key} ==\n" if several and wanted[0] is Format.TXT else ""
        write(heading + export(result, wanted[0]))
