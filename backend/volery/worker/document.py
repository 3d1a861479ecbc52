"""The result document of one unit, from what the lane and the models found."""

from __future__ import annotations

from collections.abc import Sequence

from volery import __version__
from volery.results import (
    AudioRecord,
    ClipRecord,
    ModelRecord,
    SegmentRecord,
    SpeakerRecord,
    TurnRecord,
    UnitResult,
    WordRecord,
)
from volery.units import AudioInfo, Lease, Transcript, Turn, Word


def result_document(
    lease: Lease, info: AudioInfo, transcript: Transcript, timings: dict[str, float], switches: dict[str, str]
) -> UnitResult:
    """The document that is published for a unit."""
    unit = lease.unit
    return UnitResult(
        key=unit.key,
        owner=unit.owner,
        stream=unit.stream,
        place=unit.place,
        privacy_generation=unit.privacy_generation,
        attempt=lease.attempts + 1,
        result_class=transcript.result_class,
        duration_s=_ms(info.duration_s),
        language=transcript.language,
        text=" ".join(word.text for word in transcript.words),
        words=tuple(_word_record(word) for word in transcript.words),
        turns=tuple(_turn_record(turn) for turn in transcript.turns),
        speech=tuple(SegmentRecord(start_s=_ms(one.start_s), end_s=_ms(one.end_s)) for one in transcript.speech),
        recovered=transcript.recovered,
        speakers=_speakers(transcript.turns),
        audio=_audio_record(info),
        models={
            model.role: ModelRecord(name=model.name, source=model.source, digest=model.digest)
            for model in transcript.models
        },
        switches={**dict(transcript.switches), **switches},
        timings={name: round(seconds, 4) for name, seconds in {**timings, **dict(transcript.timings)}.items()},
        volery_version=__version__,
    )


def _word_record(word: Word) -> WordRecord:
    return WordRecord(
        text=word.text,
        start_s=_ms(word.start_s),
        end_s=_ms(word.end_s),
        confidence=round(word.confidence, 4),
        speaker=word.speaker,
    )


def _turn_record(turn: Turn) -> TurnRecord:
    return TurnRecord(start_s=_ms(turn.start_s), end_s=_ms(turn.end_s), speaker=turn.speaker)


def _audio_record(info: AudioInfo) -> AudioRecord:
    return AudioRecord(
        uri=info.uri,
        sha256=info.sha256,
        clip=ClipRecord(start_s=info.clip.start_s, end_s=info.clip.end_s) if info.clip else None,
        container=info.container,
        codec=info.codec,
        sample_rate=info.sample_rate,
        channels=info.channels,
        truncated=info.truncated,
    )


def _speakers(turns: Sequence[Turn]) -> tuple[SpeakerRecord, ...]:
    seconds: dict[str, float] = {}
    for turn in turns:
        seconds[turn.speaker] = seconds.get(turn.speaker, 0.0) + turn.end_s - turn.start_s
    return tuple(SpeakerRecord(id=name, seconds=_ms(total)) for name, total in sorted(seconds.items()))


def _ms(seconds: float) -> float:
    return round(seconds, 3)
