"""Models that are simulated by sleeping on the GPU thread."""

from __future__ import annotations

import time
from collections.abc import Sequence
from time import perf_counter
from typing import cast

from volery import metrics
from volery.bench.profiles import Profile
from volery.settings import ProviderConfig
from volery.units import ModelInfo, PreparedUnit, ResultClass, Transcript, UnitError


class SimulatedModels:
    """Takes as long as a profile says and hears nothing."""

    models: tuple[ModelInfo, ...] = ()

    def __init__(self, profile: Profile, provider: ProviderConfig) -> None:
        self._reuse = provider.vad_segmentation_reuse_enabled
        self._graphs = provider.asr_cuda_graphs_enabled
        self._stages = profile.stages(reuse=self._reuse, graphs=self._graphs)

    def switch_states(self) -> dict[str, str]:
        """The switches that the sleeps depend on, as they are; where nothing is heard, nothing is recovered."""
        return {
            "vad_segmentation_reuse": _state(self._reuse),
            "asr_cuda_graphs": _state(self._graphs),
            "vad_recovery": "inapplicable",
        }

    def warm_up(self) -> None:
        """Nothing to do."""

    def process(self, group: Sequence[PreparedUnit]) -> list[Transcript | UnitError]:
        """Sleep through the stages of a group.

        Each stage ends at its own time from the beginning: a busy machine that wakes this thread
        late makes the next stage shorter, as it would not keep a real device from its work.
        """
        until_s = perf_counter()
        for stage, seconds in self._stages.items():
            until_s += seconds * len(group)
            with metrics.stage(cast("metrics.Stage", stage)):
                time.sleep(max(until_s - perf_counter(), 0.0))
        timings = tuple(self._stages.items())
        switches = tuple(self.switch_states().items())
        return [Transcript(ResultClass.NO_SPEECH, switches=switches, timings=timings) for _ in group]


def _state(on: bool) -> str:
    return "on" if on else "off"
