"""Benchmarks small enough for tests: few short units, models that hear nothing and take no time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from volery.bench.arms import Arm, parse_arms
from volery.bench.bench import Bench, Plan
from volery.bench.delays import IoDelays
from volery.bench.environment import Environment
from volery.bench.models import LoadModels
from volery.bench.profiles import GpuSeconds, IoSeconds, Profile
from volery.bench.run import Run
from volery.bench.simulated import SimulatedModels
from volery.settings import Settings
from volery.units import PreparedUnit, Transcript, Unit, UnitError
from volery.worker.publication import UnitEnded
from volery.worker.timeline import Phase, Span
from worker.stubs import write_wav

QUICK = Profile(
    name="quick",
    units=5,
    audio_seconds=1.0,
    lanes=2,
    flight_units=2,
    artifact_io_threads=2,
    gpu_seconds=GpuSeconds(vad=0.0, diarize=0.0, diarize_with_reuse=0.0, asr=0.002, asr_with_graphs=0.001),
    io=IoSeconds(fetch=0.0, publish=0.0, admission=0.0),
)


class Models(SimulatedModels):
    """The quick profile's models; notes every group, and does what a test asks before it."""

    def __init__(self, settings: Settings, groups: list[tuple[str, ...]], before: Callable[[], None]) -> None:
        super().__init__(QUICK, settings.provider)
        self._groups = groups
        self._before = before

    def process(self, group: Sequence[PreparedUnit]) -> list[Transcript | UnitError]:
        self._before()
        self._groups.append(tuple(one.unit.key for one in group))
        return super().process(group)


@dataclass
class Trial:
    """A bench over units in a folder, and everything that it told."""

    folder: Path
    order: list[str] = field(default_factory=list)
    groups: list[tuple[str, ...]] = field(default_factory=list)
    ended_units: list[UnitEnded] = field(default_factory=list)
    runs: list[tuple[str, Run]] = field(default_factory=list)
    before: Callable[[], None] = lambda: None
    process_environment: dict[str, str] = field(default_factory=dict)

    def units(self, *seconds: float) -> list[Unit]:
        """One WAV unit for each length; keys are u0, u1, …"""
        return [
            Unit(key=f"u{n}", audio_uri=write_wav(self.folder / f"u{n}.wav", length, n).as_uri())
            for n, length in enumerate(seconds)
        ]

    def plan(
        self,
        units: Sequence[Unit],
        *,
        arms: str = "all-on,all-off",
        repeats: int = 1,
        load: LoadModels | None = None,
        profile: Profile | None = None,
    ) -> Plan:
        environment = Environment(pod={}, profile=QUICK.environment, process=self.process_environment, options={})
        models = load or (lambda settings: Models(settings, self.groups, self.before))
        return Plan(parse_arms(arms), units, repeats, IoDelays(), environment, models, profile)

    async def run(self, plan: Plan) -> Bench:
        bench = Bench(plan, self.folder, self)
        await bench.run()
        return bench

    # what a watcher is told

    def doing(self, what: str) -> None:
        self.order.append(what)

    def begins(self, arm: str, repeat: int) -> None:
        self.order.append(f"{arm} {repeat}")

    def ended(self, unit: UnitEnded) -> None:
        self.ended_units.append(unit)

    def finished(self, arm: Arm, run: Run) -> None:
        self.runs.append((arm.name, run))


def span(phase: Phase, began_s: float, ended_s: float, lane: int = 0) -> Span:
    """A span of some units."""
    return Span(lane, phase, began_s, ended_s, 2, 10.0)
