"""Running the real worker from a command: in the job store of the settings, or in a private one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog
from pydantic import SecretStr

from volery.artifacts import open_results
from volery.cli.environment import read
from volery.cli.exits import ExitCode, exit_now
from volery.cli.progress import Progress
from volery.cli.stores import open_and_close, opened
from volery.extras import needed_from
from volery.queue import JobStore, UnitRecord, missing_store
from volery.results import UnitResult
from volery.settings import ArtifactSettings, QueueSettings, Settings, WorkerSettings
from volery.units import Unit, UnitState

if TYPE_CHECKING:
    from volery.app import WorkerRun
    from volery.worker.publication import UnitEnded
    from volery.worker.worker import Ending

log = structlog.get_logger(__name__)

Run = Callable[[Settings, "WorkerRun"], Coroutine[Any, Any, "Ending"]]


@dataclass
class Tally:
    """What a run came to."""

    done: int = 0
    failed: int = 0
    audio_seconds: float = 0.0

    def count(self, ended: UnitEnded) -> None:
        """Add one unit's end; one that will be tried again has not ended."""
        if ended.state is UnitState.DONE:
            self.done += 1
            self.audio_seconds += ended.duration_s
        elif ended.state.is_final:
            self.failed += 1


def check_places(settings: Settings, *, create: bool) -> None:
    """Make sure, without any heavy import, that a worker could use its job store and its results.

    A SQLite store that is not there is made, and a warning names it, or without `create` refused.

    Raises:
        ConfigurationError: this process lacks what it needs to reach them.
        StoreError: one of them cannot be used.
    """
    missing = missing_store(settings.queue.database_url.get_secret_value()) if create else None
    asyncio.run(open_and_close(settings.queue, create=create))
    if missing:
        log.warning(
            "there was no job store: an empty one is made; is BATCH_PIPELINE_DATABASE_URL right?", path=str(missing)
        )
    open_results(settings.artifacts.artifacts_url, settings.artifacts).check()


def import_app() -> tuple[Run, type[WorkerRun]]:
    """The application, whose import brings torch and takes seconds.

    Raises:
        ConfigurationError: a package that a worker needs is not installed.
    """
    with needed_from("worker,embedded"):
        from volery.app import WorkerRun, run_worker
    return run_worker, WorkerRun


async def run_burst(settings: Settings, tally: Tally, progress: Progress, *, serve_http: bool = False) -> Ending:
    """Run a worker until its store, which must be there, has nothing unfinished; with progress from that store.

    Call `import_app` before the event loop runs: in it, an interrupt would have to wait for the import.
    """
    run_worker, worker_run = import_app()

    def ended(unit: UnitEnded) -> None:
        tally.count(unit)
        progress.audio_seconds = tally.audio_seconds

    run = worker_run(burst=True, serve_http=serve_http, on_ready=progress.begin, on_ended=ended)
    async with opened(settings.queue) as store:
        following = asyncio.create_task(progress.follow(store))
        try:
            return await run_worker(settings, run)
        finally:
            progress.end()
            following.cancel()


@dataclass(frozen=True)
class Outcome:
    """What became of a unit: its record, and its result where it is done."""

    record: UnitRecord
    result: UnitResult | None = None


@dataclass
class PrivateRun:
    """What a run over a private store came to, in the order of the units."""

    ending: Ending
    outcomes: list[Outcome] = field(default_factory=list)


async def run_privately(units: Sequence[Unit], settings: Settings, folder: Path, progress: Progress) -> PrivateRun:
    """Run the real worker over units in a job store that lives in `folder`."""
    settings = _private(settings, folder)
    async with opened(settings.queue, create=True) as store:
        await store.submit(units)
        run = PrivateRun(await run_burst(settings, Tally(), progress))
        async for outcome in _outcomes(store, settings):
            run.outcomes.append(outcome)
    return run


def _private(settings: Settings, folder: Path) -> Settings:
    """The settings with a store of their own; a failed attempt is tried again at once."""
    database = SecretStr(f"sqlite:///{folder / 'volery.db'}")
    return replace(
        settings,
        queue=read(lambda: QueueSettings(database_url=database, retry_base_seconds=0.0)),
        artifacts=read(lambda: ArtifactSettings(artifacts_url=(folder / "artifacts").as_uri())),
        worker=read(lambda: WorkerSettings(poll_seconds=0.1)),
    )


async def _outcomes(store: JobStore, settings: Settings) -> AsyncIterator[Outcome]:
    results = open_results(settings.artifacts.artifacts_url, settings.artifacts)
    async for record in store.records():
        document = results.read(record.artifact) if record.artifact else None
        yield Outcome(record, UnitResult.model_validate_json(document) if document else None)


def leave_early(ending: Ending) -> None:
    """End the process where a run did not come to its own end; threads of it may be stuck."""
    from volery.worker.worker import Ending

    codes = {
        Ending.QUARANTINED: ExitCode.QUARANTINED,
        Ending.OVERRAN: ExitCode.DRAIN_OVERRAN,
        Ending.DRAINED: ExitCode.INTERRUPTED,
    }
    if code := codes.get(ending):
        exit_now(code)
