"""Words are aligned without case and punctuation."""

from __future__ import annotations

import pytest
from hypothesis import given

from bench.gate.planted import UNTIMED, heard, texts
from volery.bench.gate.words import align, normalised


def edits(base: str, candidate: str) -> int:
    return align(heard(base).words, heard(candidate).words).edits


@pytest.mark.parametrize(
    ("word", "parts"),
    [
        ("Morning,", ("morning",)),
        ("STRASSE", ("strasse",)),
        ("Straße", ("strasse",)),
        ("don’t", ("dont",)),
        ("don't", ("dont",)),
        ("twenty-one", ("twenty", "one")),
        ("3.5", ("3.5",)),
        ("3.5.", ("3.5",)),
        ("1,000,", ("1,000",)),
        ("…", ()),
        ("--", ()),
        ("ﬁve", ("five",)),
        ("naïve", ("naïve",)),
    ],
)
def test_a_word_loses_case_and_punctuation(word: str, parts: tuple[str, ...]) -> None:
    assert normalised(word) == parts


def test_case_and_punctuation_are_no_edits() -> None:
    assert edits("Good morning, everyone.", "good Morning everyone") == 0


def test_a_hyphen_is_no_edit() -> None:
    assert edits("twenty-one calls", "twenty one calls") == 0


def test_punctuation_alone_is_no_word() -> None:
    assert edits("one — two", "one two …") == 0
    assert align(heard("— …").words, ()).base_words == 0


def test_a_number_is_another_with_its_point_elsewhere() -> None:
    assert edits("3.5", "35") == 1


@pytest.mark.parametrize(
    ("candidate", "count"), [("one three four", 1), ("one two x three four", 1), ("one two x four", 1), ("", 4)]
)
def test_dropped_added_and_replaced_words_are_an_edit_each(candidate: str, count: int) -> None:
    assert edits("one two three four", candidate) == count


def test_pairs_name_both_words_by_place() -> None:
    found = align(heard("… one two").words, heard("one three two").words)
    assert [(pair.base, pair.candidate, pair.same) for pair in found.pairs] == [
        (1, 0, True),
        (None, 1, False),
        (2, 2, True),
    ]


@UNTIMED
@given(texts)
def test_a_text_has_no_edits_against_itself(text: str) -> None:
    assert edits(text, text) == 0


@UNTIMED
@given(texts, texts)
def test_edits_are_as_many_both_ways(one: str, other: str) -> None:
    assert edits(one, other) == edits(other, one)


@UNTIMED
@given(texts, texts)
def test_every_word_that_counts_is_in_one_pair(one: str, other: str) -> None:
    base = heard(one).words
    found = align(base, heard(other).words)
    assert [pair.base for pair in found.pairs if pair.base is not None] == [
        place for place, word in enumerate(base) for _ in normalised(word.text)
    ]
