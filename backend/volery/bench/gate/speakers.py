"""Whether two runs heard the same people at the same times, whatever they call them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment  # type: ignore[import-untyped]

from volery.bench.gate.spans import Spans, common, length, union
from volery.results import TurnRecord


@dataclass(frozen=True, slots=True)
class SpeakerAgreement:
    """Speaker-seconds: each speaker's own time, so two people at once count twice.

    `agreed_s` is the time for which a speaker of the base and the one that stands for them in the
    candidate both speak; `of_s` is the speaker-seconds of whichever run has more of them.
    """

    agreed_s: float
    of_s: float

    @property
    def missed_s(self) -> float:
        """Speaker-seconds that the runs do not agree about."""
        return max(0.0, self.of_s - self.agreed_s)


def speaker_agreement(base: Sequence[TurnRecord], candidate: Sequence[TurnRecord]) -> SpeakerAgreement:
    """How far the turns agree under the one-to-one mapping of speakers that makes them agree for longest."""
    ours, theirs = _by_speaker(base), _by_speaker(candidate)
    of_s = max(sum(map(length, ours)), sum(map(length, theirs)))
    if not ours or not theirs:
        return SpeakerAgreement(0.0, of_s)
    together = np.array([[length(common(one, other)) for other in theirs] for one in ours])
    rows, columns = linear_sum_assignment(together, maximize=True)
    return SpeakerAgreement(float(together[rows, columns].sum()), of_s)


def _by_speaker(turns: Sequence[TurnRecord]) -> list[Spans]:
    spoken: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    for turn in turns:
        spoken[turn.speaker].append((turn.start_s, turn.end_s))
    return [union(spans) for spans in spoken.values()]
