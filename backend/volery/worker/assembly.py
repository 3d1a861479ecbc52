"""A worker from settings and its parts: the one place that says which setting goes where."""

from __future__ import annotations

from dataclasses import dataclass

from volery.artifacts.store import AudioSource, ResultStore
from volery.queue.store import JobStore
from volery.settings import Settings
from volery.worker.gpu import GpuThread
from volery.worker.health import Health
from volery.worker.publication import OnEnded
from volery.worker.section import Process
from volery.worker.stop import Stop
from volery.worker.timeline import OnSpan
from volery.worker.worker import Worker


@dataclass(frozen=True)
class Parts:
    """What a worker works with, beside its settings."""

    store: JobStore
    source: AudioSource
    results: ResultStore
    process: Process
    gpu: GpuThread


def assemble_worker(
    settings: Settings,
    parts: Parts,
    *,
    burst: bool = False,
    health: Health | None = None,
    stop: Stop | None = None,
    on_ended: OnEnded = lambda _: None,
    on_span: OnSpan = lambda _: None,
) -> Worker:
    """The worker that these settings ask for: the same in production, in a benchmark and in a demonstration."""
    return Worker(
        store=parts.store,
        source=parts.source,
        results=parts.results,
        process=parts.process,
        gpu=parts.gpu,
        settings=settings.worker,
        audio=settings.audio,
        lease_seconds=settings.queue.lease_seconds,
        prepare_whole_flight=settings.provider.prepare_flight_enabled,
        burst=burst,
        health=health,
        stop=stop,
        on_ended=on_ended,
        on_span=on_span,
    )
