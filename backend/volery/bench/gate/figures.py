"""What a candidate's result of one unit differs in from the base's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from volery.bench.gate.runs import Result
from volery.bench.gate.spans import Spans, common, length, union, without
from volery.bench.gate.speakers import SpeakerAgreement, speaker_agreement
from volery.bench.gate.words import Alignment, align
from volery.results import WordRecord
from volery.units import ResultClass

FRAME_S = 0.08
"""One frame of Parakeet: how far two runs' times of one word may lie apart."""

_ROUNDING_S = 1e-6


@dataclass(frozen=True, slots=True)
class UnitFigures:
    """The figures of one unit, of which a run's are the sums.

    `edits` are the words dropped, added and replaced, `base_words` what they are measured by;
    `silent_words` the candidate's words where the base has none; `lost_s` seconds of speech lost;
    `drift` the sum of the differences in confidence over the `aligned_words` that are the same.
    """

    key: str
    base_class: ResultClass
    candidate_class: ResultClass
    base_words: int
    edits: int
    silent_words: int
    speakers: SpeakerAgreement
    lost_s: float
    drift: float
    aligned_words: int

    @property
    def class_changed(self) -> bool:
        """Whether the candidate's result is of another class."""
        return self.base_class is not self.candidate_class


def unit_figures(base: Result, candidate: Result, tolerance_s: float = FRAME_S) -> UnitFigures:
    """Compare two results of one unit; `tolerance_s` is for `lost_speech`."""
    found = align(base.words, candidate.words)
    drifts = list(_drifts(found, base.words, candidate.words))
    return UnitFigures(
        key=base.key,
        base_class=base.result_class,
        candidate_class=candidate.result_class,
        base_words=found.base_words,
        edits=found.edits,
        silent_words=0 if found.base_words else found.edits,
        speakers=speaker_agreement(base.turns, candidate.turns),
        lost_s=length(lost_speech(base, candidate, found, tolerance_s)),
        drift=sum(drifts),
        aligned_words=len(drifts),
    )


def _drifts(found: Alignment, base: Sequence[WordRecord], candidate: Sequence[WordRecord]) -> Iterator[float]:
    for pair in found.pairs:
        if pair.same and pair.base is not None and pair.candidate is not None:
            yield abs(base[pair.base].confidence - candidate[pair.candidate].confidence)


def lost_speech(base: Result, candidate: Result, found: Alignment, tolerance_s: float) -> Spans:
    """Stretches of the base's speech with words in which the candidate has no words.

    A word of the base is kept where the word that it is aligned with, the same or another, lies no
    further from it than `tolerance_s`, however long either lasts. Of the speech from the first to
    the last of neighbouring words that are not kept, what no word of the candidate covers is lost,
    save for stretches no longer than `tolerance_s`.
    """
    said = union(_span(word) for word in base.words)
    heard = union([*said, *((one.start_s, one.end_s) for one in base.speech)])
    gone = common(heard, union(_gone(base.words, _kept(base, candidate, found, tolerance_s), found)))
    covered = union(_span(word) for word in candidate.words)
    return [(start, end) for start, end in without(gone, covered) if end - start > tolerance_s + _ROUNDING_S]


def _span(word: WordRecord) -> tuple[float, float]:
    return word.start_s, word.end_s


def _kept(base: Result, candidate: Result, found: Alignment, tolerance_s: float) -> set[int]:
    pairs = ((pair.base, pair.candidate) for pair in found.pairs)
    return {
        ours
        for ours, theirs in pairs
        if ours is not None
        and theirs is not None
        and _apart_s(base.words[ours], candidate.words[theirs]) <= tolerance_s + _ROUNDING_S
    }


def _apart_s(one: WordRecord, other: WordRecord) -> float:
    return max(one.start_s - other.end_s, other.start_s - one.end_s)


def _gone(words: Sequence[WordRecord], kept: set[int], found: Alignment) -> Iterator[tuple[float, float]]:
    """From the first to the last of each row of words that are not kept."""
    told = sorted({pair.base for pair in found.pairs if pair.base is not None})
    for is_kept, row in groupby(told, key=lambda index: index in kept):
        if not is_kept:
            lost = [words[index] for index in row]
            yield min(word.start_s for word in lost), max(word.end_s for word in lost)
