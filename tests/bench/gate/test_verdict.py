"""Each criterion on both sides of its threshold, and the laws that hold for any runs."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.gate.planted import UNTIMED, Turns, heard, results, run_of, with_words, word, written
from volery.bench.gate.runs import read_run
from volery.bench.gate.verdict import Thresholds, Verdict, judge, judge_exactly
from volery.results import UnitResult
from volery.units import ResultClass

HUNDRED = " ".join(f"w{number}" for number in range(100))
NAMES = [
    "units lost or added",
    "unreadable documents",
    "result class changes",
    "word edit rate",
    "speaker agreement",
    "speech lost",
    "words on silent units",
    "confidence drift",
]

Judge = Callable[..., Verdict]


@pytest.fixture
def judged(tmp_path: Path) -> Judge:
    """Compares two lists of results."""

    def compare(base: list[UnitResult], candidate: list[UnitResult], **thresholds: float) -> Verdict:
        runs = run_of(tmp_path / "base", *base), run_of(tmp_path / "candidate", *candidate)
        return judge(*runs, Thresholds(**thresholds))

    return compare


def figures(verdict: Verdict) -> dict[str, float]:
    return {one.name: one.figure for one in verdict.criteria}


def failed(verdict: Verdict) -> list[str]:
    assert verdict.passed == all(one.passed for one in verdict.criteria)
    return [one.name for one in verdict.criteria if not one.passed]


def replaced(count: int, *, key: str = "call") -> UnitResult:
    """The hundred words, so many of them replaced."""
    words = HUNDRED.split()
    return heard(" ".join(["x"] * count + words[count:]), key=key)


def test_the_same_results_pass_every_criterion(judged: Judge) -> None:
    run = [heard(HUNDRED, key="a", turns=[(0.0, 50.0, "x")]), heard(key="b")]
    verdict = judged(run, run)
    assert [one.name for one in verdict.criteria] == NAMES
    assert failed(verdict) == []
    assert figures(verdict) == {**dict.fromkeys(NAMES, 0), "speaker agreement": 1.0}


def test_a_lost_unit_fails(judged: Judge) -> None:
    verdict = judged([heard(key="a"), heard(key="b")], [heard(key="a")])
    assert failed(verdict) == ["units lost or added"]


def test_an_added_unit_fails(judged: Judge) -> None:
    verdict = judged([heard(key="a")], [heard(key="a"), heard(key="b")])
    assert failed(verdict) == ["units lost or added"]


def test_as_many_units_as_allowed_may_be_lost_or_added(judged: Judge) -> None:
    base, candidate = [heard(key="a"), heard(key="b")], [heard(key="a"), heard(key="c")]
    assert failed(judged(base, candidate, units=1)) == ["units lost or added"]
    assert failed(judged(base, candidate, units=2)) == []


def test_a_unit_that_was_rejected_is_lost(tmp_path: Path) -> None:
    base = run_of(tmp_path / "base", heard(key="a"), heard(key="b"))
    written(tmp_path / "candidate", heard(key="a"))
    (tmp_path / "candidate" / "b.json").write_text('{"key": "b", "state": "rejected"}')
    assert failed(judge(base, read_run(tmp_path / "candidate"), Thresholds())) == ["units lost or added"]


def test_a_unit_that_was_rejected_by_both_is_no_difference(tmp_path: Path) -> None:
    for name in ("base", "candidate"):
        written(tmp_path / name, heard(key="a"))
        (tmp_path / name / "b.json").write_text('{"key": "b", "state": "rejected"}')
    assert judge(read_run(tmp_path / "base"), read_run(tmp_path / "candidate"), Thresholds()).passed


def test_a_document_that_cannot_be_read_fails_on_either_side(tmp_path: Path) -> None:
    good = run_of(tmp_path / "good", heard(key="a"))
    written(tmp_path / "torn", heard(key="a"))
    (tmp_path / "torn" / "b.json").write_text('{"key": "b", "cla')
    torn = read_run(tmp_path / "torn")
    assert failed(judge(good, torn, Thresholds())) == ["unreadable documents"]
    assert failed(judge(torn, good, Thresholds())) == ["unreadable documents"]
    assert not judge_exactly(torn, good).passed


def test_a_changed_class_fails(judged: Judge) -> None:
    base, candidate = [heard()], [heard(result_class=ResultClass.NO_WORDS)]
    assert failed(judged(base, candidate)) == ["result class changes"]
    assert failed(judged(base, candidate, classes=1)) == []


@pytest.mark.parametrize(("count", "verdict"), [(1, []), (2, ["word edit rate"])])
def test_one_word_in_a_hundred_may_be_another(judged: Judge, count: int, verdict: list[str]) -> None:
    found = judged([heard(HUNDRED)], [replaced(count)])
    assert figures(found)["word edit rate"] == count / 100
    assert failed(found) == verdict


def test_edits_are_counted_over_all_units_together(judged: Judge) -> None:
    base = [heard(HUNDRED, key="long"), heard("one", key="short")]
    found = judged(base, [heard(HUNDRED, key="long"), heard("two", key="short")])
    assert figures(found)["word edit rate"] == pytest.approx(1 / 101)
    assert found.passed


@pytest.mark.parametrize(("end_s", "verdict"), [(97.0, []), (96.9, ["speaker agreement"])])
def test_speakers_agree_for_97_seconds_of_a_hundred(judged: Judge, end_s: float, verdict: list[str]) -> None:
    base = [heard(HUNDRED, turns=[(0.0, 100.0, "ann")])]
    candidate = [heard(HUNDRED, turns=[(0.0, end_s, "x"), (end_s, 100.0, "y")])]
    found = judged(base, candidate)
    assert figures(found)["speaker agreement"] == pytest.approx(end_s / 100)
    assert failed(found) == verdict


def test_renamed_speakers_pass(judged: Judge) -> None:
    talk = [(0.0, 10.0, "SPEAKER_00"), (10.0, 16.0, "SPEAKER_01")]
    renamed = [(start, end, {"SPEAKER_00": "b", "SPEAKER_01": "a"}[speaker]) for start, end, speaker in talk]
    assert figures(judged([heard(turns=talk)], [heard(turns=renamed)]))["speaker agreement"] == 1.0


def test_lost_speech_fails_however_few_words_it_holds(judged: Judge) -> None:
    base, candidate = [heard(f"{HUNDRED} last")], [heard(HUNDRED)]
    assert failed(judged(base, candidate)) == ["speech lost"]
    assert failed(judged(base, candidate, speech_lost_s=0.39)) == ["speech lost"]
    assert failed(judged(base, candidate, speech_lost_s=0.4)) == []
    assert failed(judged(base, candidate, speech_tolerance_s=0.4)) == []


def test_words_on_a_silent_unit_fail(judged: Judge) -> None:
    base = [heard(HUNDRED, key="a"), heard(key="b", result_class=ResultClass.SPEECH)]
    candidate = [heard(HUNDRED, key="a"), heard("boo", key="b")]
    assert failed(judged(base, candidate)) == ["words on silent units"]
    assert failed(judged(base, candidate, silent_words=1)) == []


def test_drift_of_confidence_is_only_reported_unless_it_has_a_threshold(judged: Judge) -> None:
    base, candidate = [heard(HUNDRED, confidence=0.9)], [heard(HUNDRED, confidence=0.7)]
    found = judged(base, candidate)
    assert figures(found)["confidence drift"] == pytest.approx(0.2)
    assert found.passed
    assert failed(judged(base, candidate, confidence_drift=0.2)) == []
    assert failed(judged(base, candidate, confidence_drift=0.19)) == ["confidence drift"]


def test_drift_is_of_words_that_are_the_same(judged: Judge) -> None:
    base = [with_words(heard("x"), word("one", 0.0), word("two", 0.5, confidence=0.2))]
    candidate = [with_words(heard("x"), word("one", 0.0, confidence=0.8), word("too", 0.5))]
    assert figures(judged(base, candidate))["confidence drift"] == pytest.approx(0.1)


def test_silence_on_both_sides_passes(judged: Judge) -> None:
    assert judged([heard()], [heard()]).passed


def test_no_unit_in_common_is_no_crash(judged: Judge) -> None:
    assert failed(judged([heard(key="a")], [heard(key="b")])) == ["units lost or added"]


def test_thousands_of_words_in_one_unit_are_no_trouble(judged: Judge) -> None:
    words = [f"w{number}" for number in range(5000)]
    found = judged([heard(" ".join(words))], [heard(" ".join(words[:4990]))], speech_lost_s=10.0)
    assert figures(found)["word edit rate"] == pytest.approx(10 / 5000)


def test_the_worst_units_are_those_that_the_failed_criterion_fails_by(judged: Judge) -> None:
    talk: Turns = [(0.0, 50.0, "x")]
    base = [heard(HUNDRED, key=key, turns=talk) for key in ("fine", "words", "more-words", "people")]
    candidate = [
        base[0],
        replace_turns(replaced(5, key="words"), talk),
        replace_turns(replaced(9, key="more-words"), talk),
        replace_turns(heard(HUNDRED, key="people"), [(0.0, 25.0, "x"), (25.0, 50.0, "y")]),
    ]
    by_words = judged(base, candidate, speaker_agreement=0.5)
    assert [unit.key for unit in by_words.worst(5)] == ["more-words", "words"]
    by_people = judged(base, candidate, word_edit_rate=1.0)
    assert [unit.key for unit in by_people.worst(5)] == ["people"]
    by_both = judged(base, candidate)
    assert [unit.key for unit in by_both.worst(2)] == ["people", "more-words"]
    by_none = judged(base, candidate, word_edit_rate=1.0, speaker_agreement=0.5)
    assert [unit.key for unit in by_none.worst(9)] == ["people", "more-words", "words"]


def replace_turns(result: UnitResult, turns: Turns) -> UnitResult:
    return result.model_copy(update={"turns": heard(turns=turns).turns})


def test_exactly_the_same_passes_and_each_unit_that_differs_is_named(tmp_path: Path) -> None:
    base = run_of(tmp_path / "base", heard("one two", key="a"), heard("one", key="b"), heard(key="c"))
    candidate = run_of(tmp_path / "candidate", heard("one too", key="a"), heard("one", key="b"), heard(key="c"))
    assert judge_exactly(base, base).passed
    verdict = judge_exactly(base, candidate)
    assert failed(verdict) == ["units that differ"]
    assert verdict.differences == {"a": "words[1].text: 'two' → 'too'"}


def test_exactly_the_same_has_the_same_units(tmp_path: Path) -> None:
    base = run_of(tmp_path / "base", heard(key="a"), heard(key="b"))
    assert failed(judge_exactly(base, run_of(tmp_path / "candidate", heard(key="a")))) == ["units lost or added"]


runs = st.dictionaries(st.sampled_from("abcd"), st.just(None), min_size=1).flatmap(
    lambda keys: st.tuples(*(results(key) for key in keys))
)


@UNTIMED
@given(runs)
def test_a_run_passes_against_itself_with_the_strictest_thresholds(run: tuple[UnitResult, ...]) -> None:
    strictest = Thresholds(word_edit_rate=0.0, speaker_agreement=1.0, speech_tolerance_s=0.0, confidence_drift=0.0)
    with tempfile.TemporaryDirectory() as folder:
        one = run_of(Path(folder), *run)
        assert judge(one, one, strictest).passed
        assert judge_exactly(one, one).passed


@UNTIMED
@given(runs, runs)
def test_what_passes_exactly_passes_otherwise(base: tuple[UnitResult, ...], candidate: tuple[UnitResult, ...]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        one, other = run_of(Path(folder, "a"), *base), run_of(Path(folder, "b"), *candidate)
        assert judge(one, other, Thresholds()).passed or not judge_exactly(one, other).passed


@UNTIMED
@given(runs, runs)
def test_either_run_may_be_the_base(base: tuple[UnitResult, ...], candidate: tuple[UnitResult, ...]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        one, other = run_of(Path(folder, "a"), *base), run_of(Path(folder, "b"), *candidate)
        there, back = figures(judge(one, other, Thresholds())), figures(judge(other, one, Thresholds()))
        for name in ("units lost or added", "result class changes", "speaker agreement"):
            assert there[name] == pytest.approx(back[name])
