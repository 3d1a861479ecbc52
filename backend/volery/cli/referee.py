"""`volery referee`: a second opinion on published words, of results that are there or of a fleet as it publishes."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from volery.cli.environment import load_settings, override, quiet_logs
from volery.cli.exits import ExitCode, UsageError
from volery.cli.formats import write_file
from volery.cli.output import messages, tables, write_json
from volery.cli.progress import progress_bar
from volery.cli.published import named_results
from volery.cli.worker import Device, Models
from volery.sampling import sampled
from volery.settings import Settings
from volery.units import ConfigurationError

if TYPE_CHECKING:
    from volery.referee.cases import Case, Judgement
    from volery.referee.report import Refused, Verdict

_RESULTS = "Folders of result documents, single documents, or a gs:// URL of artifacts; searched at any depth."
_SHARE = "Share of the units to judge, chosen by their keys (default: all; with --follow, REFEREE_SAMPLE_RATE)."
_FAIL = "Most that the word error rate of all units together may be: beyond it, exit with 7."

_OVER_RESULTS = ("language", "fail_above", "worst", "report", "as_json")
_FOLLOWING = ("interval", "http_port")


def referee(
    ctx: typer.Context,
    results: Annotated[list[str] | None, typer.Argument(metavar="RESULTS", help=_RESULTS)] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Audit what the fleet of the job store publishes, until told to stop.")
    ] = False,
    sample_rate: Annotated[float | None, typer.Option(min=0, max=1, help=_SHARE)] = None,
    language: Annotated[str | None, typer.Option(help="Language of results that name none, such as en.")] = None,
    models: Annotated[Models | None, typer.Option(help="Where models come from (MODELS).")] = None,
    device: Annotated[Device | None, typer.Option(help="Where the referee's models run (REFEREE_DEVICE).")] = None,
    fail_above: Annotated[float | None, typer.Option(min=0, max=1, help=_FAIL)] = None,
    worst: Annotated[int, typer.Option("-n", min=0, help="Units shown, worst first.")] = 20,
    report: Annotated[Path | None, typer.Option(help="File to write the report to as well, as HTML.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all units and figures as one JSON object.")] = False,
    interval: Annotated[float, typer.Option(min=1.0, help="With --follow: seconds between looks.")] = 15.0,
    http_port: Annotated[int | None, typer.Option(help="With --follow: metrics and probe port (HTTP_PORT).")] = None,
) -> None:
    """Hear units anew with Whisper, and show how far their published words are from what it hears.

    Nothing is changed, and nothing heard is shown. What one model disagrees with beyond
    REFEREE_THRESHOLD a larger one decides. Each option overrides the setting named with it,
    BATCH_PIPELINE_ before it.
    """
    if follow == bool(results):
        raise UsageError("name either RESULTS or --follow")
    _refuse_idle_options(ctx, follow=follow)
    override(models=models, referee_device=device)
    if follow:
        override(referee_sample_rate=sample_rate, http_port=http_port)
        _follow(load_settings(), interval)
        return
    settings = load_settings()
    quiet_logs(settings)
    verdict = _verdict(results or [], settings, language, 1.0 if sample_rate is None else sample_rate, fail_above)
    _show(verdict, worst, report, as_json=as_json)
    if not verdict.passed:
        raise typer.Exit(ExitCode.GATE_FAILED)
    if verdict.refused:
        raise typer.Exit(ExitCode.UNITS_FAILED)


def _refuse_idle_options(ctx: typer.Context, *, follow: bool) -> None:
    """Options that would change nothing: whoever gives one expects something."""
    idle = _OVER_RESULTS if follow else _FOLLOWING
    for option in (one for one in ctx.command.params if one.name in idle):
        source = ctx.get_parameter_source(str(option.name))
        if source is not None and source.name == "COMMANDLINE":
            kind = "RESULTS, not with --follow" if follow else "--follow alone"
            raise UsageError(f"{option.opts[0]} goes with {kind}")


def _follow(settings: Settings, interval: float) -> None:
    from volery.referee.follow import follow
    from volery.referee.opening import check_referee, open_referee

    check_referee(settings)
    asyncio.run(follow(settings, open_referee(settings, in_worker=False), interval))


def _verdict(
    results: Sequence[str], settings: Settings, language: str | None, share: float, fail_above: float | None
) -> Verdict:
    from volery.referee.report import Verdict

    with tempfile.TemporaryDirectory(prefix="volery-referee-") as folder:
        with messages().status("reading results"):
            named = named_results(results, language, settings.artifacts, Path(folder))
        cases = [case for case in named.cases.values() if sampled(case.key, share, "referee")]
        if not cases:
            raise UsageError(f"no unit is in a sample of {share:g}: name more results, or a larger --sample-rate")
        judgements, refused = _judged(cases, settings)
    return Verdict(judgements, [*named.unreadable, *refused], settings.referee.referee_threshold, fail_above)


def _judged(cases: Sequence[Case], settings: Settings) -> tuple[list[Judgement], list[Refused]]:
    """Every case judged, or why it cannot be.

    Raises:
        ConfigurationError: no case can be: the models cannot be had or loaded.
    """
    from volery.referee.cases import RefereeError, RefereeReason
    from volery.referee.opening import open_referee
    from volery.referee.report import Refused

    judgements: list[Judgement] = []
    refused: list[Refused] = []
    with open_referee(settings, in_worker=False) as opened, progress_bar() as bar:
        for case in bar.track(cases, description="hearing units"):
            try:
                judgements.append(opened.judge(case, settings.referee.referee_deadline_seconds))
            except RefereeError as error:
                if error.reason is RefereeReason.NOT_STARTED:
                    raise ConfigurationError(error.message) from error
                refused.append(Refused(case.key, error.reason, error.message))
    return judgements, refused


def _show(verdict: Verdict, worst: int, report: Path | None, *, as_json: bool) -> None:
    from volery.referee.report import as_object, as_page, as_text

    if report is not None:
        write_file(report, as_page(verdict))
    if as_json:
        write_json(as_object(verdict), indent=1)
    else:
        tables().print(as_text(verdict, worst), crop=False)
