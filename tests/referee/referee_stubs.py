"""Work for the referee's process that needs no model: what it does with a case, the case's key says."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

from volery.referee.cases import Case, Judgement, RefereeError, RefereeReason
from volery.referee.devices import Choice, Why
from volery.referee.process import RefereeProcess
from volery.units import ConfigurationError, Unit


class StubWork:
    """Notes in a folder that it was made, and each case that it is given; `told` is a FIFO for those who wait.

    A key's first word says what becomes of it: `hang`, `abort`, `refuse`, `break`, or anything else to be judged.
    """

    choice = Choice("cpu", Why.NO_ROOM)

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._note("starts", str(os.getpid()))

    def judge(self, case: Case) -> Judgement:
        self._note("cases", f"{case.key} {os.getpid()}")
        match case.key.split()[0]:
            case "hang":
                (self._folder / "told").write_text(str(os.getpid()))
                signal.pause()
            case "abort":
                os.abort()
            case "refuse":
                raise RefereeError(RefereeReason.AUDIO, "the audio is gone")
            case "break":
                raise ValueError("the words that were heard")
            case "nice":
                return judgement(case.key, seconds=float(os.nice(0)))
        return judgement(case.key)

    def _note(self, name: str, line: str) -> None:
        with (self._folder / name).open("a") as file:
            file.write(f"{line}\n")


def judgement(key: str, seconds: float = 1.0) -> Judgement:
    return Judgement(key, 0.1, 0.1, False, 1, 10, "en", "cpu", seconds)


def no_models(folder: Path) -> StubWork:
    StubWork(folder)
    raise ConfigurationError("the model cannot be had")


def chatty(folder: Path) -> StubWork:
    print("a library's greeting", flush=True)
    return StubWork(folder)


def stub(folder: Path, make: Callable[[Path], StubWork] = StubWork) -> partial[StubWork]:
    return partial(make, folder)


def case_of(key: str) -> Case:
    return Case(Unit(key, f"file:///{key}.wav"), f"{key}.json")


def hang_until_killed(folder: str) -> None:
    """A parent that waits for a case that never ends."""
    RefereeProcess(stub(Path(folder))).judge(case_of("hang"), 600.0)
