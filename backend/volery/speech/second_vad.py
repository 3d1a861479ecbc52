"""A second opinion on silence, from the VAD engine that is not in use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Literal

import numpy as np
import numpy.typing as npt
import structlog

from volery import metrics
from volery.sampling import sampled
from volery.speech.failures import described
from volery.speech.segments import Activity
from volery.speech.vad import Detection, VadEngine
from volery.units import Segment

SURE = 0.9
"""How probable an engine must find speech in a frame to be certain of it. What decides that there is speech, about 0.5,
is reached for as long as dial tones last, and in the noise of a room."""

SURE_S = 1.0
"""Of how much of a unit, in seconds, it must be certain: a word or two. Less is no ground to overrule the other."""

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
        with self._failing_alone("recovery", key):
            detection = self.engine.detect(samples)
            if detection.speech and is_sure(self.engine.probability(samples, detection)):
                metrics.VAD_RECOVERED.inc()
                return replace(detection, segmentation=silent.segmentation)
        return None

    def shadow(self, key: str, samples: npt.NDArray[np.float32], speech: Sequence[Segment]) -> None:
        """Measure, if the unit is in the sample, how far this engine disagrees with the one in use."""
        if sampled(key, self._shadow_share, "vad-shadow"):
            with self._failing_alone("shadow", key):
                other = self.engine.detect(samples).speech
                metrics.VAD_DISAGREEMENT_SECONDS.observe(disagreement_s(speech, other))

    @contextmanager
    def _failing_alone(self, purpose: Literal["recovery", "shadow"], key: str) -> Iterator[None]:
        """Count and log a failure, whatever it is: the VAD in use has had its say."""
        try:
            yield
        except Exception as error:
            metrics.SECOND_VAD_FAILURES.labels(purpose).inc()
            log.error("the second VAD failed", purpose=purpose, key=key, error=described(error))


def is_sure(probability: Activity) -> bool:
    """Whether an engine is certain of speech for long enough."""
    return bool(np.count_nonzero(probability.scores >= SURE) * probability.step_s >= SURE_S)


def disagreement_s(one: Sequence[Segment], other: Sequence[Segment]) -> float:
    """Seconds that exactly one of two engines calls speech; the segments of each lie apart.

    Between every other pair of all edges in order, one engine has begun and the other has not.
    """
    edges = np.sort([edge for segment in (*one, *other) for edge in (segment.start_s, segment.end_s)])
    return float((edges[1::2] - edges[::2]).sum())
