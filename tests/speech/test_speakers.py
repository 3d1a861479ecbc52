"""Words get the speaker who was speaking."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from volery.speech.speakers import NEAR_S, with_speakers
from volery.units import Turn, Word


def speaker(start_s: float, end_s: float, *turns: Turn) -> str | None:
    return with_speakers([Word("w", start_s, end_s, 1.0)], turns)[0].speaker


def test_a_word_gets_the_speaker_of_the_turn_it_overlaps_most() -> None:
    assert speaker(1.0, 2.0, Turn(0.0, 1.4, "A"), Turn(1.3, 5.0, "B")) == "B"


def test_a_word_between_turns_gets_the_nearer_speaker() -> None:
    assert speaker(1.4, 1.5, Turn(0.0, 1.0, "A"), Turn(1.7, 3.0, "B")) == "B"


def test_a_word_half_a_second_away_from_a_turn_still_gets_its_speaker() -> None:
    assert speaker(1.5, 2.0, Turn(0.0, 1.0, "A")) == "A"


def test_a_word_further_than_half_a_second_from_every_turn_gets_none() -> None:
    assert speaker(1.6, 2.0, Turn(0.0, 1.0, "A"), Turn(2.6, 3.0, "B")) is None


def test_without_turns_nobody_speaks() -> None:
    assert speaker(0.0, 1.0) is None


def test_a_long_earlier_turn_is_seen_past_short_ones() -> None:
    assert speaker(8.0, 8.5, Turn(0.0, 9.0, "A"), Turn(1.0, 1.2, "B"), Turn(2.0, 2.2, "C")) == "A"


times = st.floats(0, 20).map(lambda value: round(value, 2))
turns = st.lists(
    st.builds(lambda a, b, who: Turn(min(a, b), max(a, b) + 0.01, who), times, times, st.sampled_from("ABC"))
).map(lambda items: sorted(items, key=lambda turn: turn.start_s))
words = st.lists(st.builds(lambda a, length: Word("w", a, a + length, 1.0), times, st.floats(0, 2))).map(
    lambda items: sorted(items, key=lambda word: word.start_s)
)


@given(words, turns)
def test_the_chosen_turn_is_the_closest_of_all(words: list[Word], turns: list[Turn]) -> None:
    def closeness(word: Word, turn: Turn) -> float:
        return min(word.end_s, turn.end_s) - max(word.start_s, turn.start_s)

    for word, spoken in zip(words, with_speakers(words, turns), strict=True):
        best = max((closeness(word, turn) for turn in turns), default=-1.0)
        closest = {turn.speaker for turn in turns if closeness(word, turn) == best}
        assert spoken.speaker in (closest if best >= -NEAR_S else {None})
