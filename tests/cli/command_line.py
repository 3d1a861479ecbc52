"""Running `volery` in tests, and units that have ended without any model."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from typer.testing import CliRunner

from blank_result import AUDIO, blank_result
from volery.artifacts import open_results
from volery.cli import app
from volery.queue import JobStore, Publication, UnitRecord, open_store
from volery.results import ModelRecord, SpeakerRecord, TurnRecord, UnitResult, WordRecord
from volery.settings import Settings
from volery.units import Reason, ResultClass, Unit

T = TypeVar("T")


class Cli:
    """Runs `volery` in this process, or as a program, where its store is the test's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, *arguments: str, input: str | bytes | None = None) -> Any:
        """Run a command in this process; what it raises beyond its own errors is raised here."""
        return CliRunner().invoke(app, arguments, input=input, catch_exceptions=False)

    def program(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run the installed program to its end."""
        command = [Path(sys.executable).with_name("volery"), *arguments]
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            env={**os.environ, **environment},
            cwd=self.folder,
            timeout=240,
            check=False,
        )

    def store(self, work: Callable[[JobStore], Awaitable[T]]) -> T:
        """Do something with the store that the commands use."""

        async def run() -> T:
            store = await open_store(Settings().queue)
            try:
                return await work(store)
            finally:
                await store.close()

        return asyncio.run(run())

    def records(self) -> list[UnitRecord]:
        """All units of the store, in order of submission."""

        async def read(store: JobStore) -> list[UnitRecord]:
            return [record async for record in store.records()]

        return self.store(read)

    def units(self) -> list[Unit]:
        """All units as they were submitted."""
        return [record.unit for record in self.records()]

    def add(self, *keys: str) -> None:
        """Submit units by key."""
        self.store(lambda store: store.submit([Unit(key=key, audio_uri=f"file:///{key}.wav") for key in keys]))

    def finish(self, *keys: str) -> None:
        """Make units done, each with a result of two words by two speakers."""
        results = open_results(Settings().artifacts.artifacts_url)

        async def work(store: JobStore) -> None:
            for lease in await store.pull("test", 32, 60):
                if lease.unit.key in keys:
                    artifact = results.write(lease.token, result_of(lease.unit.key).to_json())
                    await store.complete([Publication(lease.token, artifact, ResultClass.SPEECH, 2.0)])

        self.add(*keys)
        self.store(work)

    def reject(self, key: str) -> None:
        """Make a unit rejected."""

        async def work(store: JobStore) -> None:
            [lease] = await store.pull("test", 1, 60)
            await store.reject(lease.token, Reason.AUDIO_EMPTY, "it holds no bytes")

        self.add(key)
        self.store(work)


def touch(folder: Path, names: Sequence[str]) -> None:
    """Make files, and the folders above them."""
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"not looked at by submit")


def result_of(key: str) -> UnitResult:
    """The result of a unit in which two people say a word each."""
    said = (("good", 0.1, 0.5, "SPEAKER_00"), ("morning", 1.0, 1.6, "SPEAKER_01"))
    return blank_result(
        key,
        result_class=ResultClass.SPEECH,
        duration_s=2.0,
        language="en",
        text="good morning",
        words=tuple(
            WordRecord(text=text, start_s=start, end_s=end, confidence=0.9, speaker=who)
            for text, start, end, who in said
        ),
        turns=tuple(TurnRecord(start_s=start, end_s=end, speaker=who) for _, start, end, who in said),
        speakers=tuple(SpeakerRecord(id=who, seconds=end - start) for _, start, end, who in said),
        audio=AUDIO.model_copy(update={"uri": f"file:///{key}.wav"}),
        models={"asr": ModelRecord(name="none", source="test", digest="0" * 64)},
    )
