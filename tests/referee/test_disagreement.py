"""How far two texts lie apart, once choices of writing are out of the way."""

from __future__ import annotations

import pytest

from volery.referee.disagreement import Distance, distance


@pytest.mark.parametrize(
    ("published", "reference"),
    [
        ("one two", "1 2"),
        ("one two", "12"),
        ("one", "1"),
        ("zero zero seven", "007"),
        ("oh five five", "0-5-5."),
        ("one hundred and five", "105"),
        ("I don't know, Mr. Brown.", "i do not know mister brown"),
        ("the colour, uh, grey", "The color gray!"),
    ],
)
def test_english_that_is_written_another_way_agrees(published: str, reference: str) -> None:
    assert distance(published, reference, "en").disagreement == 0
    assert distance(reference, published, "en-GB").disagreement == 0


@pytest.mark.parametrize(
    ("language", "published", "reference"),
    [
        ("fr", "Où est l'été ?", "où est l’été"),
        ("de", "Straße, DREI", "straße drei"),
        (None, "Drei; vier", "drei vier"),
    ],
)
def test_case_and_punctuation_count_in_no_language(language: str | None, published: str, reference: str) -> None:
    assert distance(published, reference, language).disagreement == 0


def test_what_another_language_writes_alike_is_not_taken_for_english() -> None:
    assert distance("on en parle", "on 1 parle", "fr").disagreement == pytest.approx(1 / 3)
    assert distance("one", "1", "it").disagreement == 1


def test_a_language_without_blanks_is_compared_by_its_letters() -> None:
    assert distance("你好世界", "你好,世间", "zh") == Distance(1, 4)


@pytest.mark.parametrize(
    ("published", "edits"),
    [("a big dog ran", 0), ("a dog ran", 1), ("a big red dog ran", 1), ("a big cat ran", 1), ("dog a big", 3)],
)
def test_disagreement_is_the_words_to_change_for_each_word_of_the_referee(published: str, edits: int) -> None:
    assert distance(published, "a big dog ran", "en") == Distance(edits, 4)
    assert distance(published, "a big dog ran", "en").disagreement == edits / 4


@pytest.mark.parametrize(
    ("published", "reference", "disagreement"),
    [("", "", 0), ("...", " ", 0), ("yes", "", 1), ("", "yes indeed", 1), ("no no no no no", "yes", 1)],
)
def test_words_against_none_disagree_wholly_and_nothing_disagrees_with_nothing(
    published: str, reference: str, disagreement: float
) -> None:
    assert distance(published, reference, "en").disagreement == disagreement
