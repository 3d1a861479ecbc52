"""How the demo's digits are compared with what was really said."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from volery.cli.demo_digits import Comparison, SaidWord, compare, said_digits
from volery.results import WordRecord

SAID = [
    SaidWord("one", 0.0, 0.4, "he"),
    SaidWord("two", 0.5, 0.9, "he"),
    SaidWord("one", 1.0, 1.4, "she"),
]
HEARD = [
    WordRecord(text=word.text, start_s=word.start_s + 0.1, end_s=word.end_s + 0.1, confidence=0.9, speaker=speaker)
    for word, speaker in zip(SAID, ("SPEAKER_01", "SPEAKER_01", "SPEAKER_00"), strict=True)
]


def given(*speakers: str | None) -> list[WordRecord]:
    return [word.model_copy(update={"speaker": who}) for word, who in zip(HEARD, speakers, strict=True)]


def test_all_is_right_whatever_the_numbers_of_the_speakers() -> None:
    assert compare(SAID, HEARD) == Comparison(said=3, right=3, right_speaker=3, other=0)


def test_a_wrong_word_is_not_right_and_is_another_word() -> None:
    heard = [HEARD[0].model_copy(update={"text": "nine"}), *HEARD[1:]]
    assert compare(SAID, heard) == Comparison(said=3, right=2, right_speaker=2, other=1)


def test_a_word_at_another_time_is_not_right() -> None:
    heard = [*HEARD[:2], HEARD[2].model_copy(update={"start_s": 2.0, "end_s": 2.4})]
    assert compare(SAID, heard) == Comparison(said=3, right=2, right_speaker=2, other=1)


def test_a_word_heard_twice_counts_once() -> None:
    assert compare(SAID, [*HEARD, HEARD[0]]) == Comparison(said=3, right=3, right_speaker=3, other=1)


def test_a_word_heard_once_counts_once_though_it_was_said_twice() -> None:
    said = [SaidWord("five", 0.0, 0.4, "he"), SaidWord("five", 0.5, 0.9, "he")]
    heard = [HEARD[0].model_copy(update={"text": "five", "end_s": 0.9})]
    assert compare(said, heard) == Comparison(said=2, right=1, right_speaker=1, other=0)


@pytest.mark.parametrize(
    ("speakers", "right"),
    [
        (("SPEAKER_00", "SPEAKER_00", "SPEAKER_00"), 2),
        (("SPEAKER_00", "SPEAKER_01", "SPEAKER_02"), 2),
        (("SPEAKER_00", "SPEAKER_01", "SPEAKER_01"), 2),
        ((None, None, None), 0),
    ],
    ids=["one for both", "one person as two", "a turn mixed up", "nobody"],
)
def test_a_person_is_one_speaker_and_no_other(speakers: tuple[str | None, ...], right: int) -> None:
    assert compare(SAID, given(*speakers)).right_speaker == right


def test_silence_has_nothing_right() -> None:
    assert compare(SAID, []) == Comparison(said=3, right=0, right_speaker=0, other=0)


def test_the_reference_has_all_ten_digits_by_two_people_who_do_not_interrupt_each_other() -> None:
    said = said_digits()
    assert len({word.text for word in said}) == 10
    assert len({word.speaker for word in said}) == 2
    assert all(word.end_s <= after.start_s for word, after in pairwise(said))


@pytest.mark.skipif(shutil.which("espeak-ng") is None, reason="espeak-ng is not installed")
def test_the_script_makes_the_words_of_the_reference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("av", reason="av is not installed")
    scripts = Path(__file__).resolve().parents[2] / "scripts"
    monkeypatch.syspath_prepend(scripts)
    spec = importlib.util.spec_from_file_location("make_digit_conversation", scripts / "make_digit_conversation.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    module.main(tmp_path)
    made = json.loads((tmp_path / "digits.json").read_text())
    assert [(word["text"], word["speaker"]) for word in made] == [(word.text, word.speaker) for word in said_digits()]
    assert (tmp_path / "digits.flac").read_bytes().startswith(b"fLaC")
