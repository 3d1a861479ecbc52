"""What the worker itself costs: time beside the models, and memory over thousands of units.

`python benchmarks/worker.py overhead` drains a queue and then makes the same `process` calls in a
plain loop over audio in memory. `python benchmarks/worker.py memory` watches the resident memory of
one worker over many units. Both run the real worker over SQLite, audio files and published results;
only the models are stubs.
"""

from __future__ import annotations

import sys

sys.path = [folder for folder in sys.path if not folder.endswith("benchmarks")]  # `queue.py` there is no module `queue`

import asyncio  # noqa: E402
import json  # noqa: E402
import logging  # noqa: E402
import statistics  # noqa: E402
import tempfile  # noqa: E402
import threading  # noqa: E402
import time  # noqa: E402
import wave  # noqa: E402
from collections.abc import Sequence  # noqa: E402
from dataclasses import asdict, dataclass, field  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Annotated  # noqa: E402

import numpy as np  # noqa: E402
import structlog  # noqa: E402
import typer  # noqa: E402
from pydantic import SecretStr  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

from volery.artifacts import open_results, open_source  # noqa: E402
from volery.queue import JobStore, open_store  # noqa: E402
from volery.settings import AudioSettings, QueueSettings, WorkerSettings  # noqa: E402
from volery.units import PreparedUnit, ResultClass, Segment, Transcript, Turn, Unit, UnitError, Word  # noqa: E402
from volery.worker.gpu import GpuThread  # noqa: E402
from volery.worker.publication import OnEnded  # noqa: E402
from volery.worker.section import Process  # noqa: E402
from volery.worker.worker import Worker  # noqa: E402

app = typer.Typer(no_args_is_help=True, add_completion=False)

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


@dataclass
class StubModels:
    """Takes a fixed time for every unit and finds two words a second in it."""

    seconds_a_unit: float
    groups: list[list[PreparedUnit]] = field(default_factory=list)
    keep: bool = False

    def __call__(self, group: Sequence[PreparedUnit]) -> list[Transcript | UnitError]:
        """Work through a group."""
        if self.keep:
            self.groups.append(list(group))
        time.sleep(self.seconds_a_unit * len(group))
        return [_transcript(one.audio.duration_s) for one in group]


def _transcript(seconds: float) -> Transcript:
    words = tuple(Word(f"word{n}", n / 2, n / 2 + 0.4, 0.9, "SPEAKER_00") for n in range(int(seconds * 2)))
    return Transcript(
        ResultClass.SPEECH,
        words=words,
        turns=(Turn(0.0, seconds, "SPEAKER_00"),),
        speech=(Segment(0.0, seconds),),
    )


def _write_audio(path: Path, seconds: float) -> str:
    samples = np.random.default_rng(0).integers(-9000, 9000, round(seconds * 16_000), dtype=np.int16)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16_000)
        file.writeframes(samples.tobytes())
    return path.as_uri()


async def _open_queue(folder: Path, units: int, unit_seconds: float) -> JobStore:
    uri = _write_audio(folder / "unit.wav", unit_seconds)
    store = await open_store(QueueSettings(database_url=SecretStr(f"sqlite:///{folder / 'volery.db'}")))
    await store.submit([Unit(f"u{n}", uri) for n in range(units)])
    return store


def _worker(folder: Path, store: JobStore, gpu: GpuThread, process: Process, on_ended: OnEnded) -> Worker:
    return Worker(
        store=store,
        source=open_source(),
        results=open_results((folder / "artifacts").as_uri()),
        process=process,
        gpu=gpu,
        settings=WorkerSettings(),
        audio=AudioSettings(),
        lease_seconds=120.0,
        prepare_whole_flight=True,
        burst=True,
        on_ended=on_ended,
    )


async def _drain(units: int, unit_seconds: float, process: Process, on_ended: OnEnded = lambda _: None) -> float:
    """Drain a queue of units; how long the worker ran, in seconds."""
    with tempfile.TemporaryDirectory() as name:
        folder, gpu = Path(name), GpuThread()
        store = await _open_queue(folder, units, unit_seconds)
        try:
            worker = _worker(folder, store, gpu, process, on_ended)
            began = time.perf_counter()
            await worker.run()
            return time.perf_counter() - began
        finally:
            gpu.close()
            await store.close()


# --- time ---


@dataclass(frozen=True)
class Overhead:
    """The worker's wall divided by that of the plain loop, run by run."""

    seconds_a_unit: float
    units: int
    ratios: list[float]
    beside_the_models_s: float

    @property
    def ratio(self) -> float:
        """The median of the runs."""
        return statistics.median(self.ratios)


def _measure_overhead(units: int, unit_seconds: float, seconds_a_unit: float, repeats: int) -> Overhead:
    ratios, beside = [], []
    for _ in range(repeats):
        models = StubModels(seconds_a_unit, keep=True)
        drained = asyncio.run(_drain(units, unit_seconds, models))
        plain = _plain_loop(models.groups, seconds_a_unit)
        ratios.append(drained / plain)
        beside.append(drained - plain)
    return Overhead(seconds_a_unit, units, ratios, statistics.median(beside))


def _plain_loop(groups: Sequence[Sequence[PreparedUnit]], seconds_a_unit: float) -> float:
    """The same groups, one after another, with their audio in memory; in seconds."""
    models = StubModels(seconds_a_unit)
    began = time.perf_counter()
    for group in groups:
        models(group)
    return time.perf_counter() - began


@app.command()
def overhead(
    units: Annotated[int, typer.Option(help="Units in the queue.")] = 120,
    unit_seconds: Annotated[float, typer.Option(help="Length of each, in seconds.")] = 28.4,
    process_seconds: Annotated[str, typer.Option(help="Seconds of the models a unit, several by commas.")] = "0.2",
    repeats: Annotated[int, typer.Option(help="Runs of each.")] = 3,
    as_json: Json = False,
) -> None:
    """Wall of a drained queue against the same `process` calls in a plain loop."""
    _quiet()
    found = [_measure_overhead(units, unit_seconds, float(one), repeats) for one in process_seconds.split(",")]
    if as_json:
        typer.echo(json.dumps([{**asdict(one), "ratio": one.ratio} for one in found], indent=2))
        return
    table = Table("models, s a unit", "units", "ratio", "least", "most", "beside the models, s")
    for one in found:
        table.add_row(
            f"{one.seconds_a_unit:g}",
            str(one.units),
            f"{one.ratio:.3f}",
            f"{min(one.ratios):.3f}",
            f"{max(one.ratios):.3f}",
            f"{one.beside_the_models_s:.2f}",
        )
    Console().print(table)


# --- memory ---


@dataclass
class Sampler:
    """Resident memory in MiB beside the number of units ended, ten times a second."""

    ended: int = 0
    samples: list[tuple[int, float]] = field(default_factory=list)

    def watch(self, until: threading.Event) -> None:
        """Sample until told to stop; for a thread."""
        while not until.wait(0.1):
            self.samples.append((self.ended, resident_mib()))

    def between(self, first: int, last: int) -> list[float]:
        """The samples taken while so many units had ended."""
        return [mib for ended, mib in self.samples if first <= ended <= last]


def resident_mib() -> float:
    """Resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


@dataclass(frozen=True)
class Memory:
    """MiB above the start: the peak, and the median early (from the 200th unit on) and late."""

    units: int
    start_mib: float
    peak_mib: float
    early_mib: float
    late_mib: float

    @property
    def late_by_early(self) -> float:
        """How the resident memory of the last quarter stands to that of the first after the 200th unit."""
        return (self.start_mib + self.late_mib) / (self.start_mib + self.early_mib)


async def _measure_memory(units: int, unit_seconds: float) -> Memory:
    sampler, until = Sampler(), threading.Event()
    watching = threading.Thread(target=sampler.watch, args=(until,), daemon=True)
    start = resident_mib()
    watching.start()

    def count(_: object) -> None:
        sampler.ended += 1

    await _drain(units, unit_seconds, StubModels(0.0), count)
    until.set()
    watching.join()
    quarter = (units - 200) // 4
    early = statistics.median(sampler.between(200, 200 + quarter))
    late = statistics.median(sampler.between(units - quarter, units))
    peak = max(mib for _, mib in sampler.samples)
    return Memory(units, start, peak - start, early - start, late - start)


@app.command()
def memory(
    units: Annotated[int, typer.Option(help="Units that go through one worker.", min=400)] = 2000,
    unit_seconds: Annotated[float, typer.Option(help="Length of each, in seconds.")] = 30.0,
    as_json: Json = False,
) -> None:
    """Resident memory of one worker over many units."""
    _quiet()
    found = asyncio.run(_measure_memory(units, unit_seconds))
    if as_json:
        typer.echo(json.dumps({**asdict(found), "late_by_early": found.late_by_early}, indent=2))
        return
    table = Table("units", "start, MiB", "peak above it", "early", "late", "late / early")
    table.add_row(
        str(found.units),
        f"{found.start_mib:.0f}",
        f"{found.peak_mib:.0f}",
        f"{found.early_mib:.0f}",
        f"{found.late_mib:.0f}",
        f"{found.late_by_early:.3f}",
    )
    Console().print(table)


def _quiet() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))


if __name__ == "__main__":
    app()
