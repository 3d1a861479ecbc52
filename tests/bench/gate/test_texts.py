"""Both texts one above the other, with marks below what differs."""

from __future__ import annotations

from bench.gate.planted import heard, read
from volery.bench.gate.texts import Column, columns, in_rows, near_differences


def shown(base: str, candidate: str, width: int = 80) -> list[str]:
    rows = in_rows(near_differences(columns(read(heard(base)), read(heard(candidate)))), width)
    return [line.plain.rstrip() for row in rows for line in row]


def test_dropped_added_and_replaced_words_are_marked() -> None:
    assert shown("Good morning to you all", "good evening you all now") == [
        "Good morning to you all ---",
        "good evening -- you all now",
        "     ~~~~~~~ --         +++",
    ]


def test_words_are_shown_as_they_were_written() -> None:
    assert shown("Well, twenty-one!", "well twenty two") == [
        "Well, twenty-one!",
        "well  twenty two",
        "      ~~~~~~~~~~~",
    ]


def test_long_rows_are_wrapped_between_words() -> None:
    assert shown("one two three", "one too three", width=10) == [
        *("one two", "one too", "    ~~~"),
        *("three", "three", ""),
    ]


def test_a_word_wider_than_the_terminal_has_a_row_of_its_own() -> None:
    assert shown("a " + "b" * 30, "x " + "b" * 30, width=5)[:3] == ["a", "x", "~"]


def test_wide_letters_take_their_two_cells() -> None:
    assert shown("今日 so", "今 so")[2] == "~~~~"


def test_only_what_is_near_a_difference_is_shown() -> None:
    base = [f"w{number}" for number in range(100)]
    candidate = [*base[:50], "x", *base[51:]]
    line = shown(" ".join(base), " ".join(candidate), width=200)[0]
    assert line == "… w46 w47 w48 w49 w50 w51 w52 w53 w54 …"


def test_texts_without_differences_show_nothing() -> None:
    assert shown("one two", "One, two.") == []
    assert shown("", "") == []


def test_a_unit_that_differs_everywhere_is_shown_in_part() -> None:
    found = [Column(str(number), None, same=False) for number in range(10_000)]
    near = near_differences(found)
    assert len(near) < 1000
    assert near[-1].base == "…"
