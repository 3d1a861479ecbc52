"""Faults planted in published words of real speech raise the disagreement of the units that they touch, and no other.

What is published here are the words that were really said, so that agreement is not that of a model with itself.
"""

from __future__ import annotations

import random
import wave
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from referee.published import publish, settings_in
from volery.referee.cases import Case, Heard, Listener
from volery.referee.judge import Judge
from volery.referee.whisper import load_listeners
from volery.settings import Settings, SpeechSettings

pytestmark = [pytest.mark.models, pytest.mark.slow]

DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
SPEAKERS = ("george", "jackson", "lucas", "nicolas", "george")
A_UNIT = 6


@dataclass
class Remembers:
    """A listener that hears each piece of audio once: it would hear the same again."""

    listener: Listener
    heard: dict[bytes, Heard] = field(default_factory=dict)

    def hear(self, samples: npt.NDArray[np.float32], language: str | None) -> Heard:
        key = samples.tobytes()
        if key not in self.heard:
            self.heard[key] = self.listener.hear(samples, language)
        return self.heard[key]


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    plain = settings_in(tmp_path_factory.mktemp("published"))
    return replace(plain, speech=SpeechSettings(models="embedded"))


@pytest.fixture(scope="module")
def judge(settings: Settings) -> Judge:
    """The real referee with the embedded Whisper tiny."""
    listeners = load_listeners(settings, in_worker=True)
    return Judge(settings, Remembers(listeners.first), listeners.load_second, listeners.choice)


@dataclass
class Spoken:
    """A unit of real speech: its audio, and the words that were said in it."""

    key: str
    audio: Path
    words: list[str]


@pytest.fixture(scope="module")
def spoken(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Spoken]:
    """Five units of six digits each, every one of them said by one person."""
    folder, dice = tmp_path_factory.mktemp("spoken"), random.Random(5)
    units = []
    for n, who in enumerate(SPEAKERS):
        digits = [dice.randrange(10) for _ in range(A_UNIT)]
        takes = [shared_data / "fsdd" / f"{digit}_{who}_{dice.randrange(5)}.wav" for digit in digits]
        units.append(Spoken(f"u{n}", _join(takes, folder / f"u{n}.wav"), [DIGITS[digit] for digit in digits]))
    return units


def _join(takes: list[Path], path: Path) -> Path:
    with wave.open(str(path), "wb") as joined:
        joined.setnchannels(1)
        joined.setsampwidth(2)
        joined.setframerate(8_000)
        for take in takes:
            with wave.open(str(take)) as file:
                joined.writeframes(file.readframes(file.getnframes()) + bytes(4800))
    return path


def _disagreements(judge: Judge, settings: Settings, spoken: list[Spoken], words: list[list[str]]) -> list[float]:
    """The disagreement of each unit with these words published for it."""
    cases: list[Case] = [
        publish(settings, unit.key, " ".join(said), unit.audio, asked="en")
        for unit, said in zip(spoken, words, strict=True)
    ]
    return [judge.judge(case).disagreement for case in cases]


def test_what_was_really_said_is_under_the_threshold(judge: Judge, settings: Settings, spoken: list[Spoken]) -> None:
    found = _disagreements(judge, settings, spoken, [unit.words for unit in spoken])
    assert max(found) <= settings.referee.referee_threshold


def test_words_shifted_from_one_unit_to_the_next_show_in_both_and_in_no_other(
    judge: Judge, settings: Settings, spoken: list[Spoken]
) -> None:
    words = [list(unit.words) for unit in spoken]
    words[1], words[2] = words[1][:3], words[1][3:] + words[2]
    found = _disagreements(judge, settings, spoken, words)
    assert [n for n, one in enumerate(found) if one > settings.referee.referee_threshold] == [1, 2]


def test_words_dropped_from_a_unit_show_in_it_and_in_no_other(
    judge: Judge, settings: Settings, spoken: list[Spoken]
) -> None:
    words = [list(unit.words) for unit in spoken]
    words[3] = words[3][:2] + words[3][4:]
    found = _disagreements(judge, settings, spoken, words)
    assert [n for n, one in enumerate(found) if one > settings.referee.referee_threshold] == [3]
