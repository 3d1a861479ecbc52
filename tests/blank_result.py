"""A result that says nothing, for tests to fill in."""

from __future__ import annotations

from typing import Any

from volery.results import AudioRecord, UnitResult
from volery.units import ResultClass

AUDIO = AudioRecord(
    uri="file:///a.wav",
    sha256="0" * 64,
    clip=None,
    container="wav",
    codec="pcm_s16le",
    sample_rate=16_000,
    channels=1,
    truncated=False,
)


def blank_result(key: str, **fields: Any) -> UnitResult:
    """The result of a minute of silence, but for the fields that are given."""
    blank: dict[str, Any] = {
        "owner": "default",
        "stream": None,
        "place": None,
        "privacy_generation": 0,
        "attempt": 1,
        "result_class": ResultClass.NO_SPEECH,
        "duration_s": 60.0,
        "language": None,
        "text": "",
        "words": (),
        "turns": (),
        "speech": (),
        "speakers": (),
        "audio": AUDIO,
        "models": {},
        "switches": {},
        "timings": {},
        "volery_version": "0",
    }
    return UnitResult(key=key, **{**blank, **fields})
