"""Speakers agree by time, whatever they are called."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.gate.planted import UNTIMED, Turns, heard, turns
from volery.bench.gate.speakers import SpeakerAgreement, speaker_agreement


def agreement(base: Turns, candidate: Turns) -> SpeakerAgreement:
    return speaker_agreement(heard(turns=base).turns, heard(turns=candidate).turns)


TALK = [(0.0, 10.0, "ann"), (10.0, 16.0, "bob"), (16.0, 20.0, "ann")]


def test_the_same_turns_agree_about_all() -> None:
    assert agreement(TALK, TALK) == SpeakerAgreement(20.0, 20.0)


def test_a_speaker_heard_as_another_is_missed() -> None:
    found = agreement(TALK, [(0.0, 10.0, "x"), (10.0, 20.0, "y")])
    assert (found.agreed_s, found.of_s, found.missed_s) == (16.0, 20.0, 4.0)


def test_two_people_heard_as_one_agree_about_the_longer() -> None:
    assert agreement(TALK, [(0.0, 20.0, "x")]) == SpeakerAgreement(14.0, 20.0)


def test_turns_that_are_missing_and_turns_that_are_new_count_alike() -> None:
    shorter = [(0.0, 10.0, "x"), (10.0, 16.0, "y")]
    assert agreement(TALK, shorter) == agreement(shorter, TALK) == SpeakerAgreement(16.0, 20.0)


def test_a_mapping_that_is_best_on_the_whole_is_taken_not_the_longest_pair_first() -> None:
    base = [(0.0, 5.0, "a"), (10.0, 14.0, "a"), (20.0, 24.0, "b")]
    candidate = [(0.0, 5.0, "x"), (20.0, 24.0, "x"), (10.0, 14.0, "y")]
    assert agreement(base, candidate).agreed_s == 8.0


def test_people_who_talk_at_once_count_twice() -> None:
    both = [(0.0, 10.0, "a"), (0.0, 10.0, "b")]
    assert agreement(both, both) == SpeakerAgreement(20.0, 20.0)
    assert agreement(both, both[:1]) == SpeakerAgreement(10.0, 20.0)


def test_turns_of_one_speaker_that_overlap_count_once() -> None:
    assert agreement([(0.0, 6.0, "a"), (4.0, 10.0, "a")], [(0.0, 10.0, "x")]) == SpeakerAgreement(10.0, 10.0)


@pytest.mark.parametrize(("base", "candidate"), [([], TALK), (TALK, [])])
def test_nobody_on_one_side_agrees_about_nothing(base: Turns, candidate: Turns) -> None:
    assert agreement(base, candidate) == SpeakerAgreement(0.0, 20.0)


def test_nobody_on_both_sides_leaves_nothing_to_agree_about() -> None:
    assert agreement([], []) == SpeakerAgreement(0.0, 0.0)


@UNTIMED
@given(turns)
def test_turns_agree_with_themselves(one: Turns) -> None:
    found = agreement(one, one)
    assert found.agreed_s == pytest.approx(found.of_s)


@UNTIMED
@given(turns, turns)
def test_agreement_is_the_same_both_ways(one: Turns, other: Turns) -> None:
    there, back = agreement(one, other), agreement(other, one)
    assert (there.agreed_s, there.of_s) == (pytest.approx(back.agreed_s), pytest.approx(back.of_s))
    assert there.agreed_s <= there.of_s + 1e-9


@UNTIMED
@given(turns, turns, st.sampled_from(list(permutations(["ann", "bob", "cat"]))))
def test_other_names_change_nothing(one: Turns, other: Turns, names: tuple[str, ...]) -> None:
    called = dict(zip(("ann", "bob", "cat"), names, strict=True))
    renamed = [(start, end, called[speaker]) for start, end, speaker in other]
    assert agreement(one, renamed).agreed_s == pytest.approx(agreement(one, other).agreed_s)
