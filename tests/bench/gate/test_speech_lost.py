"""Speech is lost where the base has words and the candidate has none."""

from __future__ import annotations

import pytest
from hypothesis import given

from bench.gate.planted import UNTIMED, heard, read, results, with_words, word
from volery.bench.gate.figures import FRAME_S, unit_figures
from volery.results import UnitResult, WordRecord

TEN = "zero one two three four five six seven eight nine"
"""Words at 0.0, 0.5, … 4.5 s, each 0.4 s long."""


def lost_s(base: UnitResult, candidate: UnitResult, tolerance_s: float = FRAME_S) -> float:
    return round(unit_figures(read(base), read(candidate), tolerance_s).lost_s, 6)


def ten_but(*dropped: int) -> UnitResult:
    return with_words(heard(TEN), *(one for place, one in enumerate(heard(TEN).words) if place not in dropped))


def spoken(*words: WordRecord, speech: tuple[tuple[float, float], ...] = ()) -> UnitResult:
    return with_words(heard("some", speech=speech), *words)


def test_nothing_is_lost_where_every_word_is_there() -> None:
    assert lost_s(heard(TEN), heard(TEN)) == 0


def test_a_dropped_word_is_lost_for_as_long_as_it_lasts() -> None:
    assert lost_s(heard(TEN), ten_but(4)) == 0.4


def test_a_candidate_without_words_loses_all() -> None:
    assert lost_s(heard(TEN), heard("")) == 4.0


def test_the_speech_between_dropped_words_is_lost_with_them() -> None:
    base = heard(TEN, speech=[(0.0, 5.0)])
    assert lost_s(base, ten_but(4, 5, 6)) == 1.4


def test_silence_between_dropped_words_is_not_lost() -> None:
    base = heard(TEN, speech=[(0.0, 2.4), (3.0, 5.0)])
    assert lost_s(base, ten_but(4, 5, 6)) == pytest.approx(0.4 + 0.4 + 0.4)


def test_speech_between_words_that_are_kept_is_not_lost() -> None:
    base = heard(TEN, speech=[(0.0, 60.0)])
    assert lost_s(base, ten_but(0, 9)) == 0.8


def test_words_as_short_as_a_frame_are_lost_too_where_they_are_speech_together() -> None:
    words = [word(str(place), place * 0.1, place * 0.1 + 0.08) for place in range(20)]
    base = spoken(*words, speech=((0.0, 2.0),))
    assert lost_s(base, spoken(*words[:5])) == pytest.approx(1.9 + 0.08 - 0.5)


def test_another_word_in_its_place_is_no_loss() -> None:
    assert lost_s(heard("one two three"), heard("one too three")) == 0


def test_a_word_that_covers_those_it_stands_for_is_no_loss() -> None:
    assert lost_s(spoken(word("a", 0.0, 0.4), word("lot", 0.4, 0.8)), spoken(word("alot", 0.0, 0.8))) == 0


def test_a_word_may_end_earlier() -> None:
    assert lost_s(spoken(word("so", 0.0, 3.0)), spoken(word("so", 0.0, 0.2))) == 0


@pytest.mark.parametrize(("moved_s", "lost"), [(0.08, 0.0), (0.081, 0.4)])
def test_a_word_may_move_away_by_the_tolerance(moved_s: float, lost: float) -> None:
    start_s = 0.4 + moved_s
    assert lost_s(spoken(word("so", 0.0)), spoken(word("so", start_s, start_s + 0.4))) == lost
    assert lost_s(spoken(word("so", start_s, start_s + 0.4)), spoken(word("so", 0.0))) == lost


@pytest.mark.parametrize(("long_s", "lost"), [(0.08, 0.0), (0.081, 0.081)])
def test_a_stretch_no_longer_than_the_tolerance_is_not_lost(long_s: float, lost: float) -> None:
    kept = word("so", 1.0)
    assert lost_s(spoken(word("a", 0.0, long_s), kept), spoken(kept)) == lost


def test_another_tolerance_can_be_asked_for() -> None:
    assert lost_s(heard(TEN), ten_but(4), tolerance_s=0.4) == 0
    assert lost_s(spoken(word("a", 0.0, 0.05)), heard(""), tolerance_s=0.0) == 0.05


def test_words_that_only_the_candidate_has_are_no_loss() -> None:
    assert lost_s(ten_but(4, 5), heard(TEN)) == 0


@UNTIMED
@given(results(), results())
def test_no_more_is_lost_than_was_said(base: UnitResult, candidate: UnitResult) -> None:
    assert lost_s(base, base) == 0
    last_s = max((one.end_s for one in base.words), default=0.0)
    assert 0 <= lost_s(base, candidate) <= last_s
