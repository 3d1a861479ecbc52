"""`volery worker`: run a worker process."""

from __future__ import annotations

import asyncio
import signal
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import structlog
import typer

from volery.cli.environment import load_settings, override, quiet_logs
from volery.cli.exits import ExitCode, exit_now
from volery.cli.output import say
from volery.cli.progress import shown_progress
from volery.cli.running import Tally, check_places, import_app, run_burst
from volery.settings import Settings, check_environment

if TYPE_CHECKING:
    from volery.worker.worker import Ending

log = structlog.get_logger(__name__)


class Models(StrEnum):
    """Where models come from."""

    HUB = "hub"
    EMBEDDED = "embedded"


class AsrEngine(StrEnum):
    """What transcribes."""

    PARAKEET = "parakeet"
    WHISPER = "whisper"


class Device(StrEnum):
    """Where models run."""

    AUTO = "auto"
    CUDA = "cuda"
    CPU = "cpu"


def worker(
    burst: Annotated[bool, typer.Option("--burst", help="End once nothing is unfinished.")] = False,
    models: Annotated[Models | None, typer.Option(help="Where models come from (MODELS).")] = None,
    asr_engine: Annotated[AsrEngine | None, typer.Option(help="What transcribes (ASR_ENGINE).")] = None,
    asr_model: Annotated[str | None, typer.Option(help="pocket, a path or a hub name (ASR_MODEL).")] = None,
    device: Annotated[Device | None, typer.Option(help="Where models run (DEVICE).")] = None,
    lanes: Annotated[int | None, typer.Option(help="Lanes of the worker (LANES).")] = None,
    flight: Annotated[int | None, typer.Option(help="Units that a lane leases in one pull (FLIGHT_UNITS).")] = None,
    http_port: Annotated[int | None, typer.Option(help="Metrics and probe port; 0: a free one (HTTP_PORT).")] = None,
) -> None:
    """Lease units, transcribe them and publish their results.

    Runs until SIGTERM or Ctrl-C, which drain it (a second one gives everything back at once), or
    with --burst until nothing is unfinished. Each option overrides the setting named with it,
    BATCH_PIPELINE_ before it. A burst serves metrics and probes only where HTTP_PORT is set, and
    makes no job store where there is none.
    """
    from volery.referee.opening import check_referee

    override(
        models=models,
        asr_engine=asr_engine,
        asr_model=asr_model,
        device=device,
        lanes=lanes,
        flight_units=flight,
        http_port=http_port,
    )
    settings = load_settings()
    for name in check_environment():
        log.warning("unknown setting", name=name)
    # Nothing is leased yet. Without a handler a container's first process would not even notice the signal.
    signal.signal(signal.SIGTERM, lambda *_: exit_now(ExitCode.OK))
    # Before the imports, which take seconds: a mistake is told at once.
    check_referee(settings)
    check_places(settings, create=not burst)
    tally = Tally()
    ending = _run_burst(settings, tally) if burst else _run(settings)
    _leave(ending, tally)


def _run(settings: Settings) -> Ending:
    run_worker, worker_run = import_app()
    return asyncio.run(run_worker(settings, worker_run()))


def _run_burst(settings: Settings, tally: Tally) -> Ending:
    serve_http = "http_port" in settings.worker.model_fields_set
    with shown_progress() as progress:
        if progress.visible:
            quiet_logs(settings)
        import_app()
        ending = asyncio.run(run_burst(settings, tally, progress, serve_http=serve_http))
    if progress.visible:
        say(f"{tally.done} done, {tally.failed} rejected or dead, {progress.summary}")
    return ending


def _leave(ending: Ending, tally: Tally) -> None:
    """End the process as the run ended; where threads of it may be stuck, without waiting for them."""
    from volery.worker.worker import Ending

    match ending:
        case Ending.QUARANTINED:
            exit_now(ExitCode.QUARANTINED)
        case Ending.OVERRAN:
            exit_now(ExitCode.DRAIN_OVERRAN)
        case Ending.DRAINED:
            exit_now(ExitCode.UNITS_FAILED if tally.failed else ExitCode.OK)
        case Ending.FINISHED:
            raise typer.Exit(ExitCode.UNITS_FAILED if tally.failed else ExitCode.OK)
