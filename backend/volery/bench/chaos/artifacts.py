"""Artifacts that fail, hang and come out short, in front of the real ones."""

from __future__ import annotations

import random
import time

from volery.artifacts.store import AudioSource, ResultStore, SourceFile
from volery.bench.chaos.plan import LEASE_SECONDS
from volery.units import Reason, UnitFailed

_FAIL, _HANG, _SHORT = 0.01, 0.003, 0.005
_HANG_SECONDS = 1.2 * LEASE_SECONDS


class FaultySource:
    """Audio that now and then cannot be had, or only after longer than a lease."""

    def __init__(self, source: AudioSource, chance: random.Random) -> None:
        self._source = source
        self._chance = chance

    def open(self, uri: str, max_bytes: int) -> SourceFile:
        """Open the file, or not; see `AudioSource.open`."""
        draw = self._chance.random()
        if draw < _FAIL:
            raise UnitFailed(Reason.AUDIO_UNAVAILABLE, f"{uri}: a planned failure")
        if draw < _FAIL + _HANG:
            time.sleep(_HANG_SECONDS)
        return self._source.open(uri, max_bytes)


class FaultyResults:
    """Results that now and then are not written, take longer than a lease, or are half written."""

    def __init__(self, results: ResultStore, chance: random.Random) -> None:
        self._results = results
        self._chance = chance

    def write(self, token: str, document: bytes) -> str:
        """Write the document, or not, or half; see `ResultStore.write`."""
        draw = self._chance.random()
        if draw < _FAIL:
            raise UnitFailed(Reason.PUBLISH_FAILED, "a planned failure")
        if draw < _FAIL + _SHORT:
            self._results.write(token, document[: len(document) // 2])
            raise UnitFailed(Reason.PUBLISH_FAILED, "a planned failure half-way")
        if draw < _FAIL + _SHORT + _HANG:
            time.sleep(_HANG_SECONDS)
        return self._results.write(token, document)
