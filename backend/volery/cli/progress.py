"""Progress of a burst, on standard error at a terminal; nowhere else."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

from prometheus_client import REGISTRY
from rich import progress as rich_progress

from volery.cli.output import messages
from volery.metrics import Stage
from volery.queue import Counts, JobStore
from volery.units import StoreError

_EVERY_SECONDS = 0.5


class Progress:
    """Units ended of those that the store holds, the stage, audio-seconds, and RTFx: audio-seconds done in a second."""

    def __init__(self, bar: rich_progress.Progress, task: rich_progress.TaskID) -> None:
        self._bar = bar
        self._task = task
        self._ended_before: int | None = None
        self._began: float | None = None
        self._ended: float | None = None
        self.audio_seconds = 0.0

    def begin(self) -> None:
        """Models are ready: time counts from here."""
        self._began = monotonic()
        self._bar.reset(self._task, description=stage_now())

    def end(self) -> None:
        """Nothing more will come: time counts to here."""
        self._ended = monotonic()

    @property
    def visible(self) -> bool:
        """Whether there is a terminal to show it at."""
        return not self._bar.disable

    @property
    def summary(self) -> str:
        """Audio-seconds, time and their ratio, in words."""
        return f"{self.audio_seconds:.1f} s of audio in {self.elapsed_s:.1f} s, RTFx {self.rtfx:.1f}"

    @property
    def elapsed_s(self) -> float:
        """Seconds since the models were ready."""
        return (self._ended or monotonic()) - self._began if self._began is not None else 0.0

    @property
    def rtfx(self) -> float:
        """Audio-seconds done in a second."""
        return self.audio_seconds / self.elapsed_s if self.elapsed_s else 0.0

    async def follow(self, store: JobStore) -> None:
        """Show, until cancelled, what the store says."""
        while True:
            await self.update(store)
            await asyncio.sleep(_EVERY_SECONDS)

    async def update(self, store: JobStore) -> None:
        """Show what the store says; what it does not say just now is not shown."""
        try:
            counts = await store.counts()
        except StoreError:
            return
        ended = _ended(counts)
        if self._ended_before is None:
            self._ended_before = ended
        done = max(ended - self._ended_before, 0)
        if self._began is not None:
            detail = f"{self.audio_seconds:.0f} s of audio, RTFx {self.rtfx:.1f}" if self.audio_seconds else ""
            total = done + counts.unfinished
            self._bar.update(self._task, description=stage_now(), completed=done, total=total, detail=detail)


def stage_now() -> str:
    """What the worker of this process is at, by which stages have ended how often.

    A flight waits for the GPU and then has a GPU section; each of its groups goes through VAD,
    diarization and ASR in this order. Units end, and are counted, only where their flight does.
    """
    if _ended_stages("gpu_wait") == _ended_stages("worker_flight"):
        return "fetching or publishing"
    if _ended_stages("vad") > _ended_stages("diarize"):
        return "finding out who speaks"
    if _ended_stages("diarize") > _ended_stages("asr"):
        return "transcribing"
    return "looking for speech"


def _ended_stages(stage: Stage) -> float:
    return REGISTRY.get_sample_value("batch_pipeline_stage_seconds_count", {"stage": stage}) or 0.0


def _ended(counts: Counts) -> int:
    return sum(units for state, units in counts.by_state.items() if state.is_final)


def progress_bar(*details: rich_progress.ProgressColumn) -> rich_progress.Progress:
    """A line of progress at a terminal, gone when it ends; lines that are logged meanwhile go above it."""
    console = messages()
    return rich_progress.Progress(
        rich_progress.SpinnerColumn(),
        rich_progress.TextColumn("{task.description}"),
        rich_progress.TimeElapsedColumn(),
        rich_progress.BarColumn(),
        rich_progress.MofNCompleteColumn(),
        *details,
        rich_progress.TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


@contextmanager
def shown_progress() -> Iterator[Progress]:
    """The progress of a worker, from its job store."""
    with progress_bar(rich_progress.TextColumn("{task.fields[detail]}")) as bar:
        yield Progress(bar, bar.add_task("loading models", total=None, detail=""))
