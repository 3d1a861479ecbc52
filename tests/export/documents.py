"""Results for tests."""

from __future__ import annotations

from volery.results import AudioRecord, TurnRecord, UnitResult, WordRecord
from volery.units import ResultClass

Said = tuple[str, float, float, str | None]


def result(*said: Said, key: str = "call-1", turns: tuple[tuple[float, float, str], ...] = ()) -> UnitResult:
    """A result with words (text, start, end, speaker) and turns (start, end, speaker)."""
    words = tuple(
        WordRecord(text=text, start_s=start, end_s=end, confidence=0.9, speaker=speaker)
        for text, start, end, speaker in said
    )
    return UnitResult(
        key=key,
        owner="default",
        stream=None,
        place=None,
        privacy_generation=0,
        attempt=1,
        result_class=ResultClass.SPEECH if words else ResultClass.NO_SPEECH,
        duration_s=60.0,
        language=None,
        text=" ".join(word.text for word in words),
        words=words,
        turns=tuple(TurnRecord(start_s=start, end_s=end, speaker=speaker) for start, end, speaker in turns),
        speech=(),
        speakers=(),
        audio=AudioRecord(
            uri="file:///a.wav",
            sha256="0" * 64,
            clip=None,
            container="wav",
            codec="pcm_s16le",
            sample_rate=16_000,
            channels=1,
            truncated=False,
        ),
        models={},
        switches={},
        timings={},
        volery_version="0",
    )


def steady(text: str, speaker: str | None = "SPEAKER_00", start: float = 0.0, pace: float = 0.3) -> list[Said]:
    """The words of a text, one every `pace` seconds."""
    return [
        (word, start + place * pace, start + place * pace + 0.25, speaker) for place, word in enumerate(text.split())
    ]
