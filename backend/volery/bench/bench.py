"""The paired benchmark: arms over the same units, interleaved, each warm before anything is timed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Protocol

from volery import __version__
from volery.bench import machine
from volery.bench.account import ArmRuns, arm_record
from volery.bench.arms import Arm
from volery.bench.delays import IoDelays
from volery.bench.environment import Environment
from volery.bench.models import LoadModels
from volery.bench.profiles import Profile
from volery.bench.receipt import Receipt
from volery.bench.run import Job, Run, longest, run_once
from volery.units import Unit
from volery.worker.gpu import GpuThread
from volery.worker.publication import UnitEnded


@dataclass(frozen=True)
class Plan:
    """What to compare, over what, how often."""

    arms: Sequence[Arm]
    units: Sequence[Unit]
    repeats: int
    delays: IoDelays
    environment: Environment
    load_models: LoadModels
    profile: Profile | None = None


class Watcher(Protocol):
    """Told how a benchmark goes on."""

    def doing(self, what: str) -> None:
        """Something other than a run begins."""
        ...

    def begins(self, arm: str, repeat: int) -> None:
        """A timed run begins; repeats count from 1."""
        ...

    def ended(self, unit: UnitEnded) -> None:
        """A unit of a timed run ended."""
        ...

    def finished(self, arm: Arm, run: Run) -> None:
        """A timed run is over."""
        ...


class Bench:
    """Runs a plan. After every run, `receipt.json` in its folder holds all that is finished."""

    def __init__(self, plan: Plan, folder: Path, watcher: Watcher) -> None:
        self._plan = plan
        self._folder = folder
        self._watcher = watcher
        self._gpu = GpuThread()
        self._began_at = datetime.now(UTC).isoformat(timespec="seconds")
        self._machine = machine.this_machine()
        self._commit = machine.commit()
        self.arms: list[ArmRuns] = []

    async def run(self) -> None:
        """Load and warm every arm, then run them in turn, repeat by repeat.

        Raises:
            ConfigurationError: an arm's settings, its models or the machine make it impossible.
            QuarantineError: a worker may no longer be trusted; finished runs are in the receipt.
            StoreError: a job store or results cannot be used.
        """
        try:
            await self._prepare()
            for repeat in range(1, self._plan.repeats + 1):
                for arm in self.arms:
                    await self._run(arm, repeat)
        finally:
            self._gpu.close()

    def receipt(self) -> Receipt:
        """What is finished so far."""
        plan, done = self._plan, [arm for arm in self.arms if arm.runs]
        return Receipt(
            complete=len(done) == len(plan.arms) and all(len(arm.runs) == plan.repeats for arm in done),
            began_at=self._began_at,
            volery_version=__version__,
            commit=self._commit,
            packages=machine.packages(),
            machine=self._machine,
            profile=plan.profile.name if plan.profile else None,
            units=len(plan.units),
            repeats=plan.repeats,
            io=str(plan.delays),
            pod_environment=dict(plan.environment.pod),
            process_environment=dict(plan.environment.process),
            arms=tuple(arm_record(arm, done[0], plan.environment.of(arm.arm), plan.profile) for arm in done),
        )

    async def _prepare(self) -> None:
        """Load and warm all arms, in this order: what is wrong with one shows before any is timed."""
        every = [(arm, self._plan.environment.settings(arm)) for arm in self._plan.arms]
        for arm, settings in every:
            self._watcher.doing(f"loading models for {arm.name}")
            models = await self._gpu.run(partial(self._plan.load_models, settings))
            self.arms.append(ArmRuns(arm, settings, models))
        self._machine = self._machine.model_copy(update={"accelerator": machine.this_machine().accelerator})
        for one in self.arms:
            self._watcher.doing(f"warming {one.arm.name}")
            await self._warm(one)

    async def _warm(self, arm: ArmRuns) -> None:
        """Run the models at their largest shape, and the worker over the longest flight of these units."""
        await self._gpu.run(arm.models.warm_up)
        units = longest(self._plan.units, arm.settings.worker.flight_units, arm.settings)
        await run_once(Job(arm.settings, arm.models, units, IoDelays(), 0), self._gpu, lambda _: None)

    async def _run(self, arm: ArmRuns, repeat: int) -> None:
        self._watcher.begins(arm.arm.name, repeat)
        job = Job(arm.settings, arm.models, self._plan.units, self._plan.delays, repeat)
        arm.runs.append(await run_once(job, self._gpu, self._watcher.ended))
        self.receipt().write(self._folder / "receipt.json")
        self._watcher.finished(arm.arm, arm.runs[-1])
