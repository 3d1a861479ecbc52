"""Exactly the same results, but for what does not matter to who reads them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from bench.gate.planted import UNTIMED, heard, read, results
from volery.bench.gate.exact import first_difference
from volery.results import ModelRecord, UnitResult
from volery.units import ResultClass

BASE = heard("good morning", turns=[(0.0, 1.0, "SPEAKER_00")], speech=[(0.0, 1.0)])


def difference(candidate: UnitResult, base: UnitResult = BASE) -> str | None:
    return first_difference(read(base), read(candidate))


def but(name: str, place: int, **fields: Any) -> UnitResult:
    """The base with other fields in one of its records."""
    records = list(getattr(BASE, name))
    records[place] = records[place].model_copy(update=fields)
    return BASE.model_copy(update={name: tuple(records)})


@pytest.mark.parametrize(
    ("candidate", "said"),
    [
        (but("words", 1, text="Morning"), "words[1].text: 'morning' → 'Morning'"),
        (but("words", 1, start_s=0.501), "words[1].start_s: 0.5 → 0.501"),
        (but("words", 0, end_s=0.399), "words[0].end_s: 0.4 → 0.399"),
        (but("words", 0, speaker=None), "words[0].speaker: 'SPEAKER_00' → None"),
        (but("words", 0, confidence=0.8989), "words[0].confidence: 0.9 → 0.8989"),
        (but("turns", 0, end_s=1.001), "turns[0].end_s: 1.0 → 1.001"),
        (but("turns", 0, speaker="SPEAKER_01"), "turns[0].speaker: 'SPEAKER_00' → 'SPEAKER_01'"),
        (but("speech", 0, start_s=0.001), "speech[0].start_s: 0.0 → 0.001"),
        (heard("good morning"), "number of turns: 1 → 0"),
        (heard("good"), "number of words: 2 → 1"),
        (BASE.model_copy(update={"result_class": ResultClass.NO_WORDS}), "class: 'speech' → 'no_words'"),
    ],
)
def test_the_first_difference_is_named_by_place(candidate: UnitResult, said: str) -> None:
    assert difference(candidate) == said


@pytest.mark.parametrize("confidence", [0.899, 0.901])
def test_confidences_may_differ_by_a_thousandth(confidence: float) -> None:
    assert difference(but("words", 0, confidence=confidence)) is None


@pytest.mark.parametrize(
    "fields",
    [
        {"timings": {"asr": 9.0}},
        {"switches": {"asr_cuda_graphs": "off"}},
        {"volery_version": "9.9"},
        {"models": {"asr": ModelRecord(name="other", source="path", digest="1" * 64)}},
        {"attempt": 3},
    ],
)
def test_what_made_the_result_does_not_count(fields: dict[str, Any]) -> None:
    assert difference(BASE.model_copy(update=fields)) is None


@UNTIMED
@given(results())
def test_a_result_is_exactly_itself(result: UnitResult) -> None:
    assert difference(result, result) is None
