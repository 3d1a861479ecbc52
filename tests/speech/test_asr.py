"""What holds for the words of every ASR engine."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volery.speech.asr import HypothesisWord, asked_language, tidy
from volery.units import Reason, UnitRejected

anything = st.floats(-5, 40)
raw_words = st.lists(st.builds(HypothesisWord, st.just("w"), anything, anything, st.floats(-1, 2)), max_size=30)


@given(raw_words, st.floats(0.05, 30))
def test_words_stay_in_order_inside_their_window(raw: list[HypothesisWord], duration_s: float) -> None:
    words = tidy(raw, duration_s)
    assert len(words) == len(raw)
    for word in words:
        assert 0 <= word.start_s < word.end_s <= duration_s
        assert 0 <= word.confidence <= 1
    assert all(before.start_s <= after.start_s and before.end_s <= after.end_s for before, after in pairwise(words))


def test_good_words_are_left_as_they_are() -> None:
    words = (HypothesisWord("a", 0.1, 0.4, 0.5), HypothesisWord("b", 0.4, 0.9, 1.0))
    assert tidy(words, 1.0) == words


@pytest.mark.parametrize("asked", ["en", "EN", " en ", "en-GB", "en_US"])
def test_a_language_is_understood_however_it_is_written(asked: str) -> None:
    assert asked_language(asked, frozenset({"en", "de"})) == "en"


def test_a_unit_without_a_language_asks_for_none() -> None:
    assert asked_language(None, frozenset({"en"})) is None


def test_a_model_that_takes_no_language_is_asked_for_none() -> None:
    assert asked_language("fr", None) is None


def test_a_language_that_the_model_lacks_rejects_the_unit() -> None:
    with pytest.raises(UnitRejected, match="'fr', only en") as rejected:
        asked_language("fr", frozenset({"en"}))
    assert rejected.value.reason is Reason.LANGUAGE_UNSUPPORTED
