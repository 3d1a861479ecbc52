"""Puts the rooms together from settings: the only place that knows both the worker and the models."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import structlog

from volery import metrics
from volery.artifacts import open_results, open_source
from volery.queue import open_store
from volery.referee.audit import Audit
from volery.referee.opening import open_referee
from volery.settings import Settings
from volery.speech.pipeline import SpeechPipeline, load_pipeline
from volery.units import QuarantineError
from volery.worker.assembly import Parts, assemble_worker
from volery.worker.board import Board
from volery.worker.gpu import GpuThread
from volery.worker.health import Health
from volery.worker.probes import ProbeServer
from volery.worker.publication import OnEnded, UnitEnded
from volery.worker.stop import Stop, told_to_end
from volery.worker.worker import Ending

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class WorkerRun:
    """How a worker process is run, beside its settings."""

    burst: bool = False
    serve_http: bool = True
    on_ready: Callable[[], None] = lambda: None
    on_ended: OnEnded = lambda _: None


async def run_worker(settings: Settings, run: WorkerRun) -> Ending:
    """Run one worker process from its start to its end.

    Raises:
        ConfigurationError: settings, models or the machine make it impossible.
        StoreError: the job store or the artifacts cannot be used.
    """
    health = Health(stall_seconds=settings.worker.health_stall_seconds)
    stop = Stop(health)
    # From the first moment on: a process that is told to stop while it loads models must lease nothing after.
    with told_to_end(stop.drain), _audited(settings, run) as audited:
        return await _run_worker(settings, audited, health, stop)


@contextmanager
def _audited(settings: Settings, run: WorkerRun) -> Iterator[WorkerRun]:
    """The run with an audit of what it publishes, where a share of it is asked for; its end waits for no judgement."""
    if settings.referee.referee_sample_rate == 0:
        yield run
        return
    audit = Audit(settings.referee, open_referee(settings, in_worker=True))
    try:
        yield replace(run, on_ended=_both(run.on_ended, audit.ended))
    finally:
        audit.close()


async def _run_worker(settings: Settings, run: WorkerRun, health: Health, stop: Stop) -> Ending:
    board = Board()
    probes = _serve_probes(settings, health, board) if run.serve_http else None
    gpu = GpuThread()
    store = await open_store(settings.queue)
    try:
        results = open_results(settings.artifacts.artifacts_url, settings.artifacts)
        results.check()
        try:
            pipeline = await _loaded(settings, gpu, stop)
        except QuarantineError as error:
            stop.enter_quarantine(error)
            await _linger(settings, error)
            return Ending.QUARANTINED
        if pipeline is None:
            return Ending.DRAINED
        worker = assemble_worker(
            settings,
            Parts(store, open_source(settings.artifacts), results, pipeline.process, gpu),
            burst=run.burst,
            health=health,
            stop=stop,
            on_ended=_both(board.ended, run.on_ended),
            on_span=board.span,
        )
        switches = {**pipeline.switch_states(), **worker.switch_states()}
        _report_switches(switches)
        board.begin(worker.lanes, worker.budget, switches)
        health.models_ready = True
        run.on_ready()
        ending = await worker.run()
        if stop.quarantine is not None:
            await _linger(settings, stop.quarantine)
        return ending
    finally:
        await store.close()
        gpu.close()
        if probes is not None:
            probes.close()


def _both(first: OnEnded, second: OnEnded) -> OnEnded:
    def ended(unit: UnitEnded) -> None:
        first(unit)
        second(unit)

    return ended


def _serve_probes(settings: Settings, health: Health, board: Board) -> ProbeServer:
    probes = ProbeServer(health, settings.worker.http_host, settings.worker.http_port, board=board)
    log.info("serving metrics and probes", port=probes.port)
    return probes


async def _loaded(settings: Settings, gpu: GpuThread, stop: Stop) -> SpeechPipeline | None:
    """The models, loaded on the GPU thread; None where a signal came first, and nothing is leased yet."""
    loading = asyncio.create_task(gpu.run(lambda: _load_models(settings)))
    stopping = asyncio.create_task(stop.requested.wait())
    await asyncio.wait([loading, stopping], return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if loading.done():
        return loading.result()
    loading.cancel()
    return None


def _load_models(settings: Settings) -> SpeechPipeline:
    pipeline = load_pipeline(settings.speech, settings.provider)
    pipeline.warm_up()
    for model in pipeline.models:
        log.info("model loaded", role=model.role, name=model.name, source=model.source, digest=model.digest[:12])
    return pipeline


def _report_switches(states: dict[str, str]) -> None:
    for switch, state in states.items():
        log.info("switch", switch=switch, state=state)
        for other in ("on", "off", "inapplicable"):
            metrics.SWITCH_STATE.labels(switch, other).set(float(other == state))


async def _linger(settings: Settings, quarantine: QuarantineError) -> None:
    """Leave the reason where Kubernetes shows it and stay up to be scraped: one that nobody saw helps nobody."""
    seconds = settings.worker.quarantine_linger_seconds
    message = settings.worker.termination_message_path
    try:
        if message.is_file():
            message.write_text(f"quarantined: {quarantine}\n")
    except OSError as error:
        log.warning("cannot write the termination message", path=str(message), error=error.strerror)
    log.error("quarantined; exiting after a last scrape", reason=quarantine.reason, seconds=seconds)
    await asyncio.sleep(seconds)
