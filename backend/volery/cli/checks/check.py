"""One thing that was looked at, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


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
