"""From two runs to a verdict: the criteria, their figures, and the units that are to blame."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from volery.bench.gate.exact import first_difference
from volery.bench.gate.figures import FRAME_S, UnitFigures, unit_figures
from volery.bench.gate.runs import Result, Run

_ROUNDING = 1e-9


@dataclass(frozen=True)
class Thresholds:
    """How far a candidate may differ; the drift of confidence is only reported where it has no threshold."""

    units: int = 0
    classes: int = 0
    word_edit_rate: float = 0.01
    speaker_agreement: float = 0.97
    speech_lost_s: float = 0.0
    speech_tolerance_s: float = FRAME_S
    silent_words: int = 0
    confidence_drift: float | None = None


@dataclass(frozen=True)
class Criterion:
    """A figure of the whole run, and the most that it may be, or the `least`.

    `made_of` says in words what the figure comes from; `trouble` is what of it is one unit's.
    """

    name: str
    figure: float
    threshold: float | None
    made_of: str = ""
    least: bool = False
    trouble: Callable[[UnitFigures], float] | None = field(default=None, repr=False)

    @property
    def passed(self) -> bool:
        """Whether the figure keeps to its threshold."""
        if self.threshold is None:
            return True
        beyond = self.threshold - self.figure if self.least else self.figure - self.threshold
        return beyond <= _ROUNDING


@dataclass(frozen=True)
class Verdict:
    """What the comparison of two runs came to.

    `units` has the figures of each unit that both have a result of. Where results had to be exactly
    the same there are none, but the first difference of each unit that has one, by key.
    """

    base: Run
    candidate: Run
    criteria: tuple[Criterion, ...]
    units: tuple[UnitFigures, ...] = ()
    differences: dict[str, str] | None = None

    @property
    def passed(self) -> bool:
        """Whether every criterion is met."""
        return all(criterion.passed for criterion in self.criteria)

    def worst(self, count: int) -> list[UnitFigures]:
        """The units to blame for the criteria that failed, or for all where none did, worst first.

        A unit's blame is the sum of its shares in the trouble of each criterion, so that the units
        that are worst by any of them come early.
        """
        troubles = [one.trouble for one in self.criteria if one.trouble and not one.passed]
        troubles = troubles or [one.trouble for one in self.criteria if one.trouble]
        blame = {unit.key: 0.0 for unit in self.units}
        for trouble in troubles:
            total = sum(map(trouble, self.units))
            for unit in self.units if total else ():
                blame[unit.key] += trouble(unit) / total
        ranked = sorted(self.units, key=lambda unit: -blame[unit.key])
        return [unit for unit in ranked[:count] if blame[unit.key] > 0]


def judge(base: Run, candidate: Run, thresholds: Thresholds) -> Verdict:
    """Compare a candidate with a base by the figures of their results.

    Raises:
        RunError: a document changed meanwhile.
    """
    units = tuple(unit_figures(*pair, thresholds.speech_tolerance_s) for pair in _pairs(base, candidate))
    return Verdict(base, candidate, (*_whole(base, candidate, thresholds.units), *_heard(units, thresholds)), units)


def judge_exactly(base: Run, candidate: Run) -> Verdict:
    """Demand that a candidate's results are those of a base, but for what `first_difference` leaves out.

    Raises:
        RunError: a document changed meanwhile.
    """
    found = ((ours.key, first_difference(ours, theirs)) for ours, theirs in _pairs(base, candidate))
    differences = {key: what for key, what in found if what is not None}
    differing = Criterion("units that differ", len(differences), 0)
    return Verdict(base, candidate, (*_whole(base, candidate, 0), differing), differences=differences)


def _pairs(base: Run, candidate: Run) -> Iterator[tuple[Result, Result]]:
    return ((base.result(key), candidate.result(key)) for key in base.results if key in candidate.results)


def only_in(one: Run, other: Run) -> list[str]:
    """Keys of the units that only the first of two runs has a result of."""
    return [key for key in one.results if key not in other.results]


def _whole(base: Run, candidate: Run, most: int) -> tuple[Criterion, ...]:
    """The criteria of the runs as a whole, before any result is compared."""
    lost, added = len(only_in(base, candidate)), len(only_in(candidate, base))
    unreadable = len(base.unreadable) + len(candidate.unreadable)
    return (
        Criterion("units lost or added", lost + added, most, f"{lost} lost, {added} added"),
        Criterion("unreadable documents", unreadable, 0),
    )


def _heard(units: Sequence[UnitFigures], most: Thresholds) -> tuple[Criterion, ...]:
    """The criteria of what was heard, over all units together: a long unit counts for more than a short one."""
    return (
        _class_changes(units, most.classes),
        _word_edit_rate(units, most.word_edit_rate),
        _speaker_agreement(units, most.speaker_agreement),
        _speech_lost(units, most.speech_lost_s),
        _silent_words(units, most.silent_words),
        _confidence_drift(units, most.confidence_drift),
    )


def _class_changes(units: Sequence[UnitFigures], most: int) -> Criterion:
    changed = sum(unit.class_changed for unit in units)
    return Criterion(
        "result class changes", changed, most, f"of {len(units)} units", trouble=lambda unit: unit.class_changed
    )


def _word_edit_rate(units: Sequence[UnitFigures], most: float) -> Criterion:
    edits, words = sum(unit.edits for unit in units), sum(unit.base_words for unit in units)
    made_of = f"{edits} edits of {words} words"
    return Criterion("word edit rate", edits / max(words, 1), most, made_of, trouble=lambda unit: unit.edits)


def _speaker_agreement(units: Sequence[UnitFigures], least: float) -> Criterion:
    agreed_s, of_s = sum(unit.speakers.agreed_s for unit in units), sum(unit.speakers.of_s for unit in units)
    made_of = f"{agreed_s:.1f} of {of_s:.1f} speaker-seconds"
    agreement = agreed_s / of_s if of_s else 1.0
    return Criterion(
        "speaker agreement", agreement, least, made_of, least=True, trouble=lambda unit: unit.speakers.missed_s
    )


def _speech_lost(units: Sequence[UnitFigures], most: float) -> Criterion:
    made_of = f"seconds, in {sum(unit.lost_s > 0 for unit in units)} units"
    return Criterion("speech lost", sum(unit.lost_s for unit in units), most, made_of, trouble=lambda unit: unit.lost_s)


def _silent_words(units: Sequence[UnitFigures], most: int) -> Criterion:
    words, silent = sum(unit.silent_words for unit in units), sum(not unit.base_words for unit in units)
    made_of = f"in {sum(unit.silent_words > 0 for unit in units)} of {silent} silent units"
    return Criterion("words on silent units", words, most, made_of, trouble=lambda unit: unit.silent_words)


def _confidence_drift(units: Sequence[UnitFigures], most: float | None) -> Criterion:
    words = sum(unit.aligned_words for unit in units)
    drift = sum(unit.drift for unit in units) / max(words, 1)
    return Criterion("confidence drift", drift, most, f"mean of {words} words", trouble=lambda unit: unit.drift)
