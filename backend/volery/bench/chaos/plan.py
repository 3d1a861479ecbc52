"""What a run of the harness is to do, and what a worker process of it is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

LEASE_SECONDS = 3.0
"""Short, so that leases lapse often; renewed every second."""

MAX_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class Plan:
    """How many workers and units, how long the faults go on, and the seed of their order."""

    workers: int = 4
    units: int = 2000
    seconds: float = 120.0
    seed: int = 0

    @property
    def pace_s(self) -> float:
        """Seconds that the stub `process` takes for a unit, so that there is work for as long as there are faults."""
        return 0.2 * self.workers * self.seconds / self.units

    @property
    def allowance_s(self) -> float:
        """Seconds after the faults within which every unit must have ended."""
        return max(120.0, 2 * self.seconds)


@dataclass(frozen=True, slots=True)
class WorkerOrder:
    """What one worker process is told. Its database is reached through a proxy of its own."""

    database_url: str
    folder: Path
    pace_s: float
    seed: int


Work = Callable[[WorkerOrder], None]
"""The main function of a worker process; it must be importable by name."""


def ready_file(folder: Path, pid: int) -> Path:
    """What a worker process leaves once it works: one that still starts is no victim."""
    return folder / f"ready-{pid}"
