"""Audio, fetched and decoded: how one unit becomes samples, and who holds them."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from time import perf_counter

from volery import metrics
from volery.artifacts.store import AudioSource, SourceFile
from volery.audio import decode, probe_seconds
from volery.settings import AudioSettings
from volery.units import Audio, AudioInfo, Reason, Unit, UnitRejected
from volery.worker.budget import Hold


@dataclass(eq=False)
class Opened:
    """A unit's file, opened and probed: `seconds` is the most that its audio should decode to.

    `spent_s` is how long an IO thread was busy with it so far.
    """

    file: SourceFile
    seconds: float
    spent_s: float

    def give_up(self) -> None:
        """Let a decode under way fail at its next read; one that hangs in a read keeps nobody else waiting."""
        # Closing waits for the read, so not on the event loop.
        threading.Thread(target=self.file.close, name="give-up", daemon=True).start()


class OverClaim(Exception):
    """The audio is longer than its container claims: it needs more budget than was set aside."""


class AudioLoader:
    """Fetches and decodes. Every method blocks and is called on an IO thread."""

    def __init__(self, source: AudioSource, limits: AudioSettings, group_seconds: float) -> None:
        self._source = source
        self._max_bytes = limits.audio_max_bytes
        self.max_seconds = min(limits.audio_max_seconds, group_seconds)

    def open(self, unit: Unit) -> Opened:
        """Open a unit's file and learn how long its audio should be; unknown counts as the longest.

        Raises:
            UnitRejected: the audio can never work.
            UnitFailed: it cannot be had just now.
        """
        started = perf_counter()
        file = self._source.open(unit.audio_uri, self._max_bytes)
        try:
            claimed = probe_seconds(file.stream, unit.audio_uri)
            return Opened(file, self._unit_seconds(unit, claimed), perf_counter() - started)
        except BaseException:
            file.close()
            raise

    def load(self, unit: Unit, opened: Opened, max_seconds: float) -> Audio:
        """Decode an opened unit to at most `max_seconds` and close its file.

        Raises:
            OverClaim: there is more audio than `max_seconds`, yet not more than is allowed.
            UnitRejected, UnitFailed: as for `open`.
        """
        started = perf_counter()
        try:
            decoded = decode(opened.file.stream, unit.audio_uri, clip=unit.clip, max_seconds=max_seconds)
            digest = opened.file.sha256()
        except UnitRejected as error:
            if error.reason is Reason.AUDIO_TOO_LONG and max_seconds < self.max_seconds:
                raise OverClaim from error
            raise
        finally:
            opened.file.close()
            opened.spent_s += perf_counter() - started
            metrics.STAGE_SECONDS.labels("fetch_decode").observe(opened.spent_s)
        info = AudioInfo(
            uri=unit.audio_uri,
            sha256=digest,
            container=decoded.container,
            codec=decoded.codec,
            sample_rate=decoded.sample_rate,
            channels=decoded.channels,
            duration_s=decoded.duration_s,
            truncated=decoded.truncated,
            clip=unit.clip,
        )
        return Audio(decoded.samples, info)

    def _unit_seconds(self, unit: Unit, claimed: float | None) -> float:
        end = claimed
        if unit.clip is not None and unit.clip.end_s is not None:
            end = unit.clip.end_s if claimed is None else min(unit.clip.end_s, claimed)
        if end is None:
            return self.max_seconds
        start = unit.clip.start_s if unit.clip is not None else 0.0
        return min(max(end - start, 0.0) + _CLAIM_SLACK_SECONDS, self.max_seconds)


_CLAIM_SLACK_SECONDS = 1.0
"""Containers round: encoder padding and frame sizes make audio a little longer than claimed."""


class Preparation:
    """One unit's decoded audio and its share of a budget. Closing twice is harmless."""

    def __init__(self, audio: Audio, hold: Hold) -> None:
        hold.shrink(audio.duration_s)
        self._hold = hold
        self._audio: Audio | None = audio

    @property
    def audio(self) -> Audio:
        """The audio, until the preparation is closed."""
        if self._audio is None:
            raise RuntimeError("this preparation has been returned")
        return self._audio

    def close(self) -> None:
        """Drop the audio and return its share of the budget."""
        self._audio = None
        self._hold.close()
