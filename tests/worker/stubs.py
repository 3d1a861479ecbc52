"""A worker over a real store and real audio files, with a stub only where the models would be."""

from __future__ import annotations

import asyncio
import hashlib
import wave
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from pydantic import SecretStr

from volery.artifacts import open_results, open_source
from volery.queue import JobStore, open_store
from volery.settings import AudioSettings, QueueSettings, WorkerSettings
from volery.units import PreparedUnit, ResultClass, Segment, Transcript, Turn, Unit, UnitError, UnitState, Word
from volery.worker.gpu import GpuThread
from volery.worker.publication import UnitEnded
from volery.worker.worker import Ending, Worker

Process = Callable[[Sequence[PreparedUnit]], Sequence[Transcript | UnitError]]


def write_wav(path: Path, seconds: float, seed: int = 0) -> Path:
    """Noise that is different for every seed."""
    samples = np.random.default_rng(seed).integers(-9000, 9000, round(seconds * 16_000), dtype=np.int16)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16_000)
        file.writeframes(samples.tobytes())
    return path


def transcript_of(prepared: PreparedUnit) -> Transcript:
    """A transcript whose one word is a digest of the samples, so that results can be checked."""
    word = hashlib.sha256(prepared.audio.samples.tobytes()).hexdigest()
    end_s = prepared.audio.duration_s
    return Transcript(
        ResultClass.SPEECH,
        words=(Word(word, 0.0, end_s, 1.0, "SPEAKER_00"),),
        turns=(Turn(0.0, end_s, "SPEAKER_00"),),
        speech=(Segment(0.0, end_s),),
    )


def digest_each(group: Sequence[PreparedUnit]) -> list[Transcript | UnitError]:
    """The stub: each unit's digest."""
    return [transcript_of(one) for one in group]


def queue_settings(folder: Path, **changes: object) -> QueueSettings:
    """An embedded store in a folder, with retries that do not make a test wait."""
    url = SecretStr(f"sqlite:///{folder / 'volery.db'}")
    return QueueSettings.model_validate({"database_url": url, "retry_base_seconds": 0.0, **changes})


class Bench:
    """A folder with a store, audio files and results, and the workers that run over it."""

    def __init__(self, folder: Path, store: JobStore) -> None:
        self.folder = folder
        self.store = store
        self.ended: list[UnitEnded] = []
        self.gpu = GpuThread()
        self.source = open_source()
        self.results = open_results((folder / "artifacts").as_uri())

    @classmethod
    async def open(cls, folder: Path, **queue: object) -> Bench:
        return cls(folder, await open_store(queue_settings(folder, **queue)))

    async def submit(self, *seconds: float, **fields: object) -> list[Unit]:
        """Submit one WAV unit for each length; keys are u0, u1, …"""
        units = [
            Unit(key=f"u{n}", audio_uri=write_wav(self.folder / f"u{n}.wav", length, n).as_uri(), **fields)  # type: ignore[arg-type]
            for n, length in enumerate(seconds)
        ]
        await self.store.submit(units)
        return units

    def worker(
        self, process: Process = digest_each, *, burst: bool = True, prepare: bool = True, **tuning: object
    ) -> Worker:
        """A worker whose settings are the defaults, but for quick polls and what is given."""
        lease_seconds = float(str(tuning.pop("lease_seconds", 60.0)))
        store, on_span = tuning.pop("store", self.store), tuning.pop("on_span", lambda _: None)
        return Worker(
            store=store,  # type: ignore[arg-type]
            source=tuning.pop("source", None) or self.source,  # type: ignore[arg-type]
            results=tuning.pop("results", None) or self.results,  # type: ignore[arg-type]
            process=process,
            gpu=self.gpu,
            settings=WorkerSettings.model_validate({"poll_seconds": 0.02, **tuning}),
            audio=AudioSettings(),
            lease_seconds=lease_seconds,
            prepare_whole_flight=prepare,
            burst=burst,
            on_ended=self.ended.append,
            on_span=on_span,  # type: ignore[arg-type]
        )

    async def until_done(self, worker: Worker) -> Ending:
        """Run a worker until a unit is done, then drain it; how it ended."""
        running = asyncio.create_task(worker.run())
        while not any(one.state is UnitState.DONE for one in self.ended):
            await asyncio.sleep(0.01)
        worker.stop.drain()
        return await running

    async def states(self) -> dict[str, str]:
        """Every unit's state by key."""
        return {record.unit.key: record.state.value async for record in self.store.records()}

    async def attempts(self) -> dict[str, int]:
        """Attempts charged to every unit."""
        return {record.unit.key: record.attempts async for record in self.store.records()}

    async def endings(self) -> dict[str, list[str]]:
        """How each grant of each unit ended, in order."""
        found: dict[str, list[str]] = {}
        for grant in await self.store.grants():
            found.setdefault(grant.key, []).append(grant.ended_as or "running")
        return found
