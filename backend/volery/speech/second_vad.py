"""A second opinion on silence, from the VAD engine that is not in use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import numpy.typing as npt
import structlog

from volery import metrics
from volery.sampling import sampled
from volery.speech.failures import described
from volery.speech.vad import Detection, VadEngine
from volery.units import Segment

SURE_SCORE = 0.9
"""From which score on an engine is certain of a frame. In noise, hum and tones silero stays below 0.5;
pyannote's is the share of overlapping windows that agree, so that a doubt here and there is below."""

SURE_S = 1.0
"""How much of a unit, in seconds, it must be certain of: a word or two. A single certain sound is no speech to
call a whole unit back for."""

log = structlog.get_logger(__name__)


class SecondVad:
    """The other engine: a shadow on a share of units, and where it `recovers`, the one who speaks up at silence.

    Its failure leaves a unit as it is without it: it is counted and logged.
    """

    def __init__(self, engine: VadEngine, *, shadow_share: float, recovers: bool) -> None:
        self.engine = engine
        self.recovers = recovers
        self._shadow_share = shadow_share

    def recovery(self, key: str, samples: npt.NDArray[np.float32], silent: Detection) -> Detection | None:
        """What to transcribe of a unit that the VAD in use calls silent; None where this engine is not sure.

        The segmentation scores stay those of the VAD in use: who speaks is told from them, whoever
        found the speech.
        """
        detection = self._detected("recovery", key, samples)
        if detection is None or not is_sure(detection):
            return None
        metrics.VAD_RECOVERED.inc()
        return replace(detection, segmentation=silent.segmentation)

    def shadow(self, key: str, samples: npt.NDArray[np.float32], speech: Sequence[Segment]) -> None:
        """Measure, if the unit is in the sample, how far this engine disagrees with the one in use."""
        if sampled(key, self._shadow_share, "vad-shadow"):
            detection = self._detected("shadow", key, samples)
            if detection is not None:
                metrics.VAD_DISAGREEMENT_SECONDS.observe(disagreement_s(speech, detection.speech))

    def _detected(
        self, purpose: Literal["recovery", "shadow"], key: str, samples: npt.NDArray[np.float32]
    ) -> Detection | None:
        try:
            return self.engine.detect(samples)
        except Exception as error:  # whatever it is, the VAD in use has had its say
            metrics.SECOND_VAD_FAILURES.labels(purpose).inc()
            log.error("the second VAD failed", purpose=purpose, key=key, error=described(error))
            return None


def is_sure(detection: Detection) -> bool:
    """Whether there is enough speech of which the engine is nearly certain."""
    activity = detection.activity
    return bool(np.count_nonzero(activity.scores >= SURE_SCORE) * activity.step_s >= SURE_S)


def disagreement_s(one: Sequence[Segment], other: Sequence[Segment]) -> float:
    """Seconds that exactly one of two engines calls speech; the segments of each lie apart.

    Between every other pair of all edges in order, one engine has begun and the other has not.
    """
    edges = np.sort([edge for segment in (*one, *other) for edge in (segment.start_s, segment.end_s)])
    return float((edges[1::2] - edges[::2]).sum())
