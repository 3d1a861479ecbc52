"""Results for tests."""

from __future__ import annotations

from blank_result import blank_result
from volery.results import TurnRecord, UnitResult, WordRecord
from volery.units import ResultClass

Said = tuple[str, float, float, str | None]


def result(*said: Said, key: str = "call-1", turns: tuple[tuple[float, float, str], ...] = ()) -> UnitResult:
    """A result with words (text, start, end, speaker) and turns (start, end, speaker)."""
    words = tuple(
        WordRecord(text=text, start_s=start, end_s=end, confidence=0.9, speaker=speaker)
        for text, start, end, speaker in said
    )
    return blank_result(
        key,
        result_class=ResultClass.SPEECH if words else ResultClass.NO_SPEECH,
        text=" ".join(word.text for word in words),
        words=words,
        turns=tuple(TurnRecord(start_s=start, end_s=end, speaker=speaker) for start, end, speaker in turns),
    )


def steady(text: str, speaker: str | None = "SPEAKER_00", start: float = 0.0, pace: float = 0.3) -> list[Said]:
    """The words of a text, one every `pace` seconds."""
    return [
        (word, start + place * pace, start + place * pace + 0.25, speaker) for place, word in enumerate(text.split())
    ]
