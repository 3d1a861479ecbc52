"""What the audit costs a worker: with the referee's process stopped dead, and with it busy on the CPU.

    python benchmarks/referee.py stopped [--profile l4] [--repeats 3] [--json]
    python benchmarks/referee.py busy MANIFEST... [--repeats 3] [--json]

Each compares runs without an audit with runs in which every published unit is to be audited, in turn,
now the one first and now the other.
`stopped` sends SIGSTOP to the referee's process, its models loaded, before the worker begins, so its
queue fills and stays full; the worker's GPU sleeps as the profile says. `busy` runs the real worker and
its real models with the referee at work beside them. Both use the embedded models.
"""

from __future__ import annotations

import sys

sys.path = [folder for folder in sys.path if not folder.endswith("benchmarks")]  # `queue.py` there is no module `queue`

import asyncio  # noqa: E402
import json  # noqa: E402
import logging  # noqa: E402
import multiprocessing  # noqa: E402
import os  # noqa: E402
import signal  # noqa: E402
import tempfile  # noqa: E402
from collections.abc import Iterator, Sequence  # noqa: E402
from contextlib import contextmanager  # noqa: E402
from dataclasses import asdict, dataclass, replace  # noqa: E402
from pathlib import Path  # noqa: E402
from statistics import median  # noqa: E402
from time import perf_counter  # noqa: E402
from typing import Annotated  # noqa: E402

import structlog  # noqa: E402
import typer  # noqa: E402
from prometheus_client import REGISTRY  # noqa: E402
from pydantic import SecretStr  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

import volery.speech  # noqa: E402, F401  # before torch
from volery.app import WorkerRun, run_worker  # noqa: E402
from volery.bench.arms import parse_arm  # noqa: E402
from volery.bench.environment import Environment, pod_environment  # noqa: E402
from volery.bench.models import simulated_by  # noqa: E402
from volery.bench.profiles import Profile, load_profile  # noqa: E402
from volery.bench.run import Job, run_once  # noqa: E402
from volery.cli.inputs import collect  # noqa: E402
from volery.queue import open_store  # noqa: E402
from volery.referee.audit import Audit, audit  # noqa: E402
from volery.referee.cases import Case  # noqa: E402
from volery.referee.opening import open_referee  # noqa: E402
from volery.settings import ArtifactSettings, QueueSettings, RefereeSettings, Settings, SpeechSettings  # noqa: E402
from volery.units import Unit  # noqa: E402
from volery.worker.gpu import GpuThread  # noqa: E402
from volery.worker.publication import UnitEnded  # noqa: E402

app = typer.Typer(no_args_is_help=True, add_completion=False)

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Repeats = Annotated[int, typer.Option(min=1, help="Runs of each.")]

EVERY_UNIT = RefereeSettings(referee_sample_rate=1.0)
NO_UNIT = RefereeSettings(referee_sample_rate=0.0)


@dataclass(frozen=True)
class Runs:
    """One figure of every run without an audit, and of every run with it, in the order in which they were made."""

    figure: str
    without: list[float]
    audited: list[float]
    units: dict[str, float]
    """What became of the units of the sample, in all runs together."""

    @property
    def ratio(self) -> float:
        """The medians' ratio, with the audit to without."""
        return median(self.audited) / median(self.without)


@app.command()
def stopped(
    profile: Annotated[str, typer.Option(help="The device to simulate.")] = "l4",
    repeats: Repeats = 3,
    as_json: Json = False,
) -> None:
    """Audio-hours per GPU-section-hour, and wall, with the referee's process stopped dead."""
    _quiet()
    with tempfile.TemporaryDirectory() as folder:
        _show(asyncio.run(_stopped(load_profile(profile), repeats, Path(folder))), as_json=as_json)


async def _stopped(profile: Profile, repeats: int, folder: Path) -> list[Runs]:
    environment = Environment(pod_environment(), profile.environment, {}, {})
    settings = environment.settings(parse_arm("all-on"))
    units, gpu = profile.make_units(folder), GpuThread()
    job = Job(settings, simulated_by(profile)(settings), units, profile.delays, 0)
    rates, walls = ([], []), ([], [])
    before = _outcomes()
    with _stopped_referee(folder) as stopped_one:
        for repeat in range(1, repeats + 1):
            offers = list(enumerate((lambda _: None, stopped_one.ended)))
            for kind, offer in offers if repeat % 2 else reversed(offers):
                figures = (await run_once(replace(job, repeat=repeat), gpu, offer)).figures
                rates[kind].append(figures.audio_hours_per_gpu_hour)
                walls[kind].append(figures.wall_seconds)
        units_seen = _since(before)
    gpu.close()
    return [
        Runs("audio-hours per GPU-section-hour", rates[0], rates[1], units_seen),
        Runs("wall, s", walls[0], walls[1], units_seen),
    ]


@contextmanager
def _stopped_referee(folder: Path) -> Iterator[Audit]:
    """An audit of every unit whose process is there, its models loaded, and stands still."""
    settings = Settings(
        artifacts=ArtifactSettings(artifacts_url=folder.as_uri()),
        speech=SpeechSettings(models="embedded"),
        referee=EVERY_UNIT,
    )
    process = open_referee(settings, in_worker=True)
    audit(Case(Unit("first", "file:///nothing"), "results/no/nothing.json"), process, 600.0)
    [child] = multiprocessing.active_children()
    assert child.pid is not None
    os.kill(child.pid, signal.SIGSTOP)
    beside = Audit(settings.referee, process)
    try:
        yield beside
    finally:
        beside.close()


@app.command()
def busy(
    manifests: Annotated[list[str], typer.Argument(metavar="MANIFEST...", help="Manifests, audio files or folders.")],
    repeats: Repeats = 3,
    asr_model: Annotated[str | None, typer.Option(help="pocket, or a path; unset: the embedded Whisper.")] = None,
    as_json: Json = False,
) -> None:
    """Wall of a real worker from its models being ready to its end, with the referee busy on the CPU beside it."""
    _quiet()
    units = collect(manifests, {}).units
    without: list[float] = []
    audited: list[float] = []
    before = _outcomes()
    for repeat in range(repeats):
        for share, walls in ((NO_UNIT, without), (EVERY_UNIT, audited))[:: -1 if repeat % 2 else 1]:
            walls.append(asyncio.run(_drained(units, asr_model, share)))
    _show([Runs("wall, s", without, audited, _since(before))], as_json=as_json)


async def _drained(units: Sequence[Unit], asr_model: str | None, referee: RefereeSettings) -> float:
    """Run one worker over a private store until it is empty; seconds from its models being ready to its end."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        settings = Settings(
            queue=QueueSettings(database_url=SecretStr(f"sqlite:///{folder / 'volery.db'}")),
            artifacts=ArtifactSettings(artifacts_url=(folder / "artifacts").as_uri()),
            speech=SpeechSettings(models="embedded", asr_model=asr_model),
            referee=referee,
        )
        store = await open_store(settings.queue)
        await store.submit(units)
        await store.close()
        began_s: list[float] = []
        ended_s: list[float] = []

        def ended(unit: UnitEnded) -> None:
            ended_s.append(perf_counter())

        run = WorkerRun(burst=True, serve_http=False, on_ready=lambda: began_s.append(perf_counter()), on_ended=ended)
        await run_worker(settings, run)
        return ended_s[-1] - began_s[0]


def _outcomes() -> dict[str, float]:
    [metric] = [one for one in REGISTRY.collect() if one.name == "batch_pipeline_referee_units"]
    return {one.labels["outcome"]: one.value for one in metric.samples if one.name.endswith("_total")}


def _since(before: dict[str, float]) -> dict[str, float]:
    return {name: value - before.get(name, 0.0) for name, value in _outcomes().items()}


def _show(found: Sequence[Runs], *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps([{**asdict(one), "ratio": one.ratio} for one in found], indent=2))
        return
    table = Table("figure", "without", "audited", "ratio of medians", "units of the sample")
    for one in found:
        runs = (" ".join(f"{figure:.2f}" for figure in figures) for figures in (one.without, one.audited))
        units = ", ".join(f"{count:.0f} {outcome}" for outcome, count in one.units.items() if count)
        table.add_row(one.figure, *runs, f"{one.ratio:.3f}", units)
    Console().print(table)


def _quiet() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))


if __name__ == "__main__":
    app()
