"""Whether this process is alive and ready: written by the worker, read by the probe thread."""

from __future__ import annotations

import asyncio
from time import monotonic

_BEAT_SECONDS = 0.5
_GROUP_GRACE_SECONDS = 300.0
_GROUP_SECONDS_AN_AUDIO_SECOND = 2.0
"""A group counts as stuck after the grace and twice its own length: even a CPU is faster than that."""


class Health:
    """Plain attributes, each written by one thread and read by another."""

    def __init__(self, stall_seconds: float) -> None:
        self.stall_seconds = stall_seconds
        self.models_ready = False
        self.draining = False
        self.quarantined: str | None = None
        self.store_seen: float | None = None
        self._beat: float | None = None
        self._group: tuple[float, float] | None = None

    async def beat(self) -> None:
        """Show, for ever, that the event loop turns."""
        while True:
            self._beat = monotonic()
            await asyncio.sleep(_BEAT_SECONDS)

    def group_begins(self, audio_seconds: float) -> None:
        """A group of this length is on the GPU thread from now on."""
        self._group = (monotonic(), audio_seconds)

    def group_ends(self) -> None:
        """No group is on the GPU thread."""
        self._group = None

    def unhealthy(self) -> str | None:
        """Why the process should be killed, or None."""
        if self.quarantined is not None:
            return f"quarantined: {self.quarantined}"
        if self._beat is not None and (silent := monotonic() - self._beat) > self.stall_seconds:
            return f"the event loop has not turned for {silent:.0f} s"
        return self._stuck_group()

    def unready(self) -> str | None:
        """Why the process takes no work at the moment, or None."""
        if (reason := self.unhealthy()) is not None:
            return reason
        if not self.models_ready:
            return "models are loading"
        if self.draining:
            return "draining"
        if self.store_seen is None:
            return "the job store has not answered yet"
        if monotonic() - self.store_seen > 60.0:
            return "the job store has not answered for 60 s"
        return None

    def _stuck_group(self) -> str | None:
        if (group := self._group) is None:
            return None
        started, audio_seconds = group
        bound = _GROUP_GRACE_SECONDS + _GROUP_SECONDS_AN_AUDIO_SECOND * audio_seconds
        if (ran := monotonic() - started) > bound:
            return f"a group of {audio_seconds:.0f} audio-seconds has been on the GPU thread for {ran:.0f} s"
        return None
