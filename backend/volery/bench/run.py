"""One run of one arm: the real worker over a job store and results that are thrown away."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter

from volery.artifacts import ResultStore, open_results, open_source
from volery.bench.delays import IoDelays, Sleepers, SlowSource, slow_results, slow_store
from volery.bench.environment import private
from volery.bench.figures import lane_figures
from volery.bench.meter import Meter, peak_rss_bytes
from volery.bench.models import Models, as_they_run
from volery.bench.receipt import FailedUnit, Figures, Ran
from volery.queue import JobStore, UnitRecord, open_store
from volery.results import UnitResult
from volery.settings import Settings
from volery.units import Unit, UnitError, UnitState
from volery.worker.assembly import Parts, assemble_worker
from volery.worker.gpu import GpuThread
from volery.worker.preparation import AudioLoader
from volery.worker.publication import UnitEnded
from volery.worker.timeline import Phase, Span
from volery.worker.worker import Ending, Worker


@dataclass(frozen=True)
class Run:
    """What one run came to; `spans` count from its beginning."""

    repeat: int
    figures: Figures
    ran: Ran
    spans: tuple[Span, ...]
    results: tuple[UnitResult, ...]
    failed: tuple[FailedUnit, ...]


@dataclass(frozen=True)
class Job:
    """What is run: settings and models, over units, with a fetch, publication and admission that take time."""

    settings: Settings
    models: Models
    units: Sequence[Unit]
    delays: IoDelays
    repeat: int


async def run_once(job: Job, gpu: GpuThread, on_ended: Callable[[UnitEnded], None]) -> Run:
    """Run the worker until every unit has ended.

    Raises:
        QuarantineError: the worker may no longer be trusted, so neither may its figures.
        StoreError: the job store or the results cannot be used.
    """
    with tempfile.TemporaryDirectory(prefix="volery-bench-") as folder:
        settings = private(job.settings, Path(folder))
        store = await open_store(settings.queue)
        try:
            await store.submit(job.units)
            return await _measured(replace(job, settings=settings), store, gpu, on_ended)
        finally:
            await store.close()


async def _measured(job: Job, store: JobStore, gpu: GpuThread, on_ended: Callable[[UnitEnded], None]) -> Run:
    sleepers = Sleepers(job.delays, job.repeat)
    results = open_results(job.settings.artifacts.artifacts_url, job.settings.artifacts)
    spans: list[Span] = []
    worker = assemble_worker(
        job.settings,
        Parts(
            store=slow_store(store, sleepers.admission),
            source=SlowSource(open_source(job.settings.artifacts), sleepers.fetch),
            results=slow_results(results, sleepers.publish),
            process=job.models.process,
            gpu=gpu,
        ),
        burst=True,
        on_ended=on_ended,
        on_span=spans.append,
    )
    meter, began_s = Meter(), perf_counter()
    if await worker.run() is Ending.QUARANTINED and worker.stop.quarantine:
        raise worker.stop.quarantine
    records = [record async for record in store.records()]
    return Run(
        repeat=job.repeat,
        figures=_figures(began_s, spans, records, meter, sleepers, worker),
        ran=_as_it_ran(worker, job.models, spans),
        spans=tuple(replace(one, began_s=one.began_s - began_s, ended_s=one.ended_s - began_s) for one in spans),
        results=tuple(_results_of(records, results)),
        failed=tuple(_failure(job.repeat, record) for record in records if record.state is not UnitState.DONE),
    )


def _figures(
    began_s: float,
    spans: Sequence[Span],
    records: Sequence[UnitRecord],
    meter: Meter,
    sleepers: Sleepers,
    worker: Worker,
) -> Figures:
    lanes = lane_figures(began_s, spans)
    states = [record.state for record in records]
    audio_s = sum(record.duration_s or 0.0 for record in records if record.state is UnitState.DONE)
    return Figures(
        audio_hours_per_gpu_hour=audio_s / lanes.gpu_section_s if lanes.gpu_section_s else 0.0,
        audio_seconds=audio_s,
        gpu_section_seconds=lanes.gpu_section_s,
        gpu_busy_seconds=lanes.gpu_busy_s,
        gpu_held_idle_seconds=lanes.held_idle_s,
        wall_seconds=lanes.wall_s,
        gpu_idle_seconds=lanes.idle_s,
        first_group_seconds=lanes.first_group_s,
        stage_seconds=meter.stage_seconds(),
        simulated_io_seconds={
            "fetch": sleepers.fetch.seconds,
            "publish": sleepers.publish.seconds,
            "admission": sleepers.admission.seconds,
        },
        peak_rss_bytes=peak_rss_bytes(),
        cuda_peak_bytes=meter.cuda_peak_bytes(),
        budget_high_water_seconds=worker.budget.high_water,
        graph_captures=meter.graph_captures(),
        units={state.value: states.count(state) for state in sorted(set(states))},
    )


def _as_it_ran(worker: Worker, models: Models, spans: Sequence[Span]) -> Ran:
    flights = [span for span in spans if span.phase is Phase.ADMISSION]
    return Ran(
        lanes=worker.lanes,
        flight_units=worker.flight_units,
        io_threads=worker.io_threads,
        decode_budget_seconds=worker.budget.limit,
        section_budget_seconds=worker.section_budget.limit,
        largest_flight=max((span.units for span in flights), default=0),
        lanes_seen=len({span.lane for span in flights}),
        switches={**worker.switch_states(), **models.switch_states()},
        models=as_they_run(models),
    )


def _results_of(records: Sequence[UnitRecord], results: ResultStore) -> list[UnitResult]:
    return [UnitResult.model_validate_json(results.read(record.artifact)) for record in records if record.artifact]


def _failure(repeat: int, record: UnitRecord) -> FailedUnit:
    return FailedUnit(repeat=repeat, key=record.unit.key, state=record.state, reason=record.reason, error=record.error)


def longest(units: Sequence[Unit], count: int, settings: Settings) -> list[Unit]:
    """The longest units, by what their containers claim; those that cannot be opened are left out."""
    loader = AudioLoader(open_source(settings.artifacts), settings.audio, settings.worker.group_seconds)
    seconds: dict[str, float] = {}
    for unit in units:
        try:
            opened = loader.open(unit)
        except UnitError:
            continue
        opened.file.close()
        seconds[unit.key] = opened.seconds
    found = [unit for unit in units if unit.key in seconds]
    return sorted(found, key=lambda unit: -seconds[unit.key])[:count]
