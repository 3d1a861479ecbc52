"""The receipt of a benchmark: what was asked for, what ran, and what it came to."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from volery.results import ModelRecord

SCHEMA_VERSION = 1


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Spread(_Record):
    """A figure of every run, in the order of repeats, and their median, least and most."""

    median: float
    least: float
    most: float
    runs: tuple[float, ...]

    @classmethod
    def of(cls, runs: Sequence[float]) -> Self:
        """The spread of at least one figure."""
        rounded = tuple(round(one, 6) for one in runs)
        return cls(median=statistics.median(rounded), least=min(rounded), most=max(rounded), runs=rounded)


class Figures(_Record):
    """What one run of one arm came to. Times are seconds; see `figures.py` for how each is defined."""

    audio_hours_per_gpu_hour: float
    audio_seconds: float
    gpu_section_seconds: float
    gpu_busy_seconds: float
    gpu_held_idle_seconds: float
    wall_seconds: float
    gpu_idle_seconds: float
    first_group_seconds: float
    stage_seconds: dict[str, float]
    simulated_io_seconds: dict[str, float]
    peak_rss_bytes: int
    cuda_peak_bytes: int | None
    budget_high_water_seconds: float
    graph_captures: int
    units: dict[str, int]

    @property
    def gpu_idle_share(self) -> float:
        """GPU idle while work waited, as a part of wall."""
        return self.gpu_idle_seconds / self.wall_seconds if self.wall_seconds else 0.0


class ModelsRecord(_Record):
    """Models as the live objects say."""

    simulated: bool
    devices: dict[str, str]
    precision: str | None
    decoding_mode: str | None
    models: dict[str, ModelRecord]


class Ran(_Record):
    """The configuration of an arm as it ran, read from the live objects after its last run."""

    lanes: int
    flight_units: int
    io_threads: int
    decode_budget_seconds: float
    section_budget_seconds: float
    largest_flight: int = Field(description="The most units that a lane really had in a flight.")
    lanes_seen: int = Field(description="Lanes that really had a flight.")
    switches: dict[str, str]
    models: ModelsRecord


class FailedUnit(_Record):
    """A unit that a run could not end `done`."""

    repeat: int
    key: str
    state: str
    reason: str | None
    error: str | None


class ArmRecord(_Record):
    """One arm: asked, ran, and its figures over all its finished runs."""

    name: str
    asked: dict[str, str] = Field(description="Variables of settings that the arm started from.")
    ran: Ran
    differences: tuple[str, ...] = Field(description="Where what was asked and what ran differ.")
    audio_hours_per_gpu_hour: Spread
    ratio: Spread = Field(description="To the first arm, run by run of the same repeat.")
    ceiling: float | None = Field(description="Of a simulated device: no worker can have more.")
    gpu_busy_seconds: Spread
    gpu_section_seconds: Spread
    gpu_held_idle_seconds: Spread
    wall_seconds: Spread
    gpu_idle_seconds: Spread
    gpu_idle_share: Spread
    stage_seconds: dict[str, Spread]
    peak_rss_bytes: Spread
    cuda_peak_bytes: Spread | None
    budget_high_water_seconds: Spread
    runs: tuple[Figures, ...]
    failed_units: tuple[FailedUnit, ...]

    @property
    def median_run(self) -> Figures:
        """The run whose objective is in the middle, the lower of two."""
        return self.runs[median_index(self.audio_hours_per_gpu_hour.runs)]


def median_index(figures: Sequence[float]) -> int:
    """Which of several is in the middle; the lower of two."""
    order = sorted(range(len(figures)), key=lambda index: figures[index])
    return order[(len(figures) - 1) // 2]


class Machine(_Record):
    """Where it ran."""

    platform: str
    processor: str
    cpus: int
    memory_bytes: int
    accelerator: str | None
    load_at_start: float = Field(description="Processes that wanted a CPU as the bench began, on average.")


class Receipt(_Record):
    """Everything that a reader needs to believe, or to repeat, a benchmark."""

    schema_version: int = SCHEMA_VERSION
    complete: bool = Field(description="False where the bench was interrupted or is still running.")
    began_at: str
    volery_version: str
    commit: str | None
    packages: dict[str, str]
    machine: Machine
    profile: str | None
    units: int
    repeats: int
    io: str
    pod_environment: dict[str, str] = Field(description="What the chart gives a pod.")
    process_environment: dict[str, str] = Field(description="What this process set on top.")
    arms: tuple[ArmRecord, ...]

    def write(self, path: Path) -> None:
        """Replace the file as a whole."""
        temporary = path.with_suffix(".tmp")
        temporary.write_text(self.model_dump_json(indent=1) + "\n", encoding="utf-8")
        temporary.replace(path)


class _NamedArm(BaseModel):
    name: str


class _NamedArms(BaseModel):
    arms: tuple[_NamedArm, ...]


def arms_named_in(path: Path) -> tuple[str, ...]:
    """The arms that a receipt of any version names; none where there is no receipt that can be read."""
    try:
        return tuple(arm.name for arm in _NamedArms.model_validate_json(path.read_bytes()).arms)
    except (OSError, ValidationError):
        return ()
