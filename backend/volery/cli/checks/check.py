"""One thing that was looked at, and what came of it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from enum import StrEnum
from threading import Thread
from typing import TypeVar

T = TypeVar("T")


class Verdict(StrEnum):
    """Whether something will do; a warning is for what only some uses need."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True)
class Check:
    """What was looked at, what was found, and what to do where it will not do."""

    name: str
    verdict: Verdict
    found: str
    advice: str = ""


def within(seconds: float, call: Callable[[], T]) -> T:
    """What a call returns, if it does so in time; one that hangs is left behind.

    Raises:
        TimeoutError: it took too long.
    """
    outcome: Future[T] = Future()

    def run() -> None:
        try:
            outcome.set_result(call())
        except BaseException as error:
            outcome.set_exception(error)

    Thread(target=run, daemon=True).start()
    return outcome.result(seconds)
