"""`volery gate`: whether a candidate's results may take the place of a base's."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from volery.cli.exits import ExitCode, UsageError
from volery.cli.formats import write_file
from volery.cli.output import messages, tables, write_json
from volery.extras import needed_from

if TYPE_CHECKING:
    from volery.bench.gate.verdict import Verdict


def _finite(value: float | None) -> float | None:
    """The threshold; infinity and what is no number are none: nothing could fail, or nothing pass."""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"{value:g} is no threshold; write a number")
    return value


_BASE = "Results to compare with: a folder that volery results -o wrote, an artifacts folder, or one arm's of a bench."


def gate(
    base: Annotated[Path, typer.Argument(metavar="BASE", help=_BASE)],
    candidate: Annotated[Path, typer.Argument(metavar="CANDIDATE", help="Results of the same units to judge.")],
    exact: Annotated[
        bool, typer.Option("--exact", help="Demand the same words, times, turns and classes; thresholds do not count.")
    ] = False,
    units: Annotated[int, typer.Option("--max-units", min=0, help="Units lost or added.")] = 0,
    classes: Annotated[int, typer.Option("--max-classes", min=0, help="Results of another class.")] = 0,
    word_edits: Annotated[
        float,
        typer.Option(
            "--max-word-edit-rate",
            callback=_finite,
            min=0,
            help="Words dropped, added or replaced, a word of the base.",
        ),
    ] = 0.01,
    speakers: Annotated[
        float,
        typer.Option(
            "--min-speaker-agreement", callback=_finite, min=0, max=1, help="Part of the speaker-seconds agreed about."
        ),
    ] = 0.97,
    speech_lost: Annotated[
        float,
        typer.Option(
            "--max-speech-lost", callback=_finite, min=0, help="Seconds of speech in which only the base has words."
        ),
    ] = 0.0,
    tolerance: Annotated[
        float,
        typer.Option("--speech-tolerance", callback=_finite, min=0, help="Seconds by which times of words may differ."),
    ] = 0.08,
    silent_words: Annotated[
        int, typer.Option("--max-silent-words", min=0, help="Words in units where the base has none.")
    ] = 0,
    confidence: Annotated[
        float | None,
        typer.Option(
            "--max-confidence-drift",
            callback=_finite,
            min=0,
            help="Mean difference in confidence. (default: only reported)",
        ),
    ] = None,
    worst: Annotated[int, typer.Option("-n", min=0, help="Units shown, worst first.")] = 5,
    out: Annotated[Path | None, typer.Option("--out", help="File to write the report to as well, as JSON.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as one JSON object.")] = False,
) -> None:
    """Compare the results of two runs over the same units: exits with 7 where the candidate fails.

    Documents are matched by the keys of their units. The report shows words that differ; with
    -n 0 it shows none.
    """
    verdict = _judged(
        base,
        candidate,
        exact,
        {
            "units": units,
            "classes": classes,
            "word_edit_rate": word_edits,
            "speaker_agreement": speakers,
            "speech_lost_s": speech_lost,
            "speech_tolerance_s": tolerance,
            "silent_words": silent_words,
            "confidence_drift": confidence,
        },
    )
    _report(verdict, worst, out, as_json=as_json)
    if not verdict.passed:
        raise typer.Exit(ExitCode.GATE_FAILED)


def _judged(base: Path, candidate: Path, exact: bool, thresholds: dict[str, Any]) -> Verdict:
    """The verdict on two folders.

    Raises:
        UsageError: one of them does not hold the results of one run.
        ConfigurationError: a package that compares is not installed.
    """
    with needed_from("bench"):
        from volery.bench.gate.runs import RunError, read_run
        from volery.bench.gate.verdict import Thresholds, judge, judge_exactly
    try:
        with messages().status("reading results"):
            runs = read_run(base), read_run(candidate)
        with messages().status("comparing results"):
            return judge_exactly(*runs) if exact else judge(*runs, Thresholds(**thresholds))
    except RunError as error:
        raise UsageError(str(error)) from error


def _report(verdict: Verdict, worst: int, out: Path | None, *, as_json: bool) -> None:
    from volery.bench.gate.report import as_object, as_text

    if out is not None:
        write_file(out, json.dumps(as_object(verdict, worst), ensure_ascii=False, indent=1) + "\n")
    if as_json:
        write_json(as_object(verdict, worst), indent=1)
    else:
        console = tables()
        console.print(as_text(verdict, worst, console.width), crop=False)
