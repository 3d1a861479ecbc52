"""Results for tests of the gate, and folders of them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from blank_result import blank_result
from volery.bench.gate.runs import Result, Run, read_run
from volery.export import Format, file_name
from volery.results import SegmentRecord, TurnRecord, UnitResult, WordRecord
from volery.units import ResultClass

PACE_S = 0.5
LENGTH_S = 0.4

Turns = Iterable[tuple[float, float, str]]


def heard(
    text: str = "",
    *,
    key: str = "call",
    turns: Turns = (),
    speech: Iterable[tuple[float, float]] = (),
    confidence: float = 0.9,
    result_class: ResultClass | None = None,
) -> UnitResult:
    """A result with the words of a text, one every half second, each 0.4 s long."""
    words = tuple(word(text, place * PACE_S, confidence=confidence) for place, text in enumerate(text.split()))
    return blank_result(
        key,
        result_class=result_class or (ResultClass.SPEECH if words else ResultClass.NO_SPEECH),
        text=text,
        words=words,
        turns=tuple(TurnRecord(start_s=start, end_s=end, speaker=speaker) for start, end, speaker in turns),
        speech=tuple(SegmentRecord(start_s=start, end_s=end) for start, end in speech),
    )


def word(text: str, start_s: float, end_s: float | None = None, *, confidence: float = 0.9) -> WordRecord:
    """A word, 0.4 s long unless its end is given."""
    end_s = start_s + LENGTH_S if end_s is None else end_s
    return WordRecord(
        text=text, start_s=round(start_s, 3), end_s=round(end_s, 3), confidence=confidence, speaker="SPEAKER_00"
    )


def with_words(result: UnitResult, *words: WordRecord) -> UnitResult:
    """The result with other words."""
    return result.model_copy(update={"words": words})


def read(result: UnitResult) -> Result:
    """A result as the gate reads it."""
    return Result.model_validate_json(result.to_json())


def written(folder: Path, *results: UnitResult) -> Path:
    """The folder, with the results in it as `volery bench` writes them."""
    folder.mkdir(parents=True, exist_ok=True)
    for result in results:
        (folder / file_name(result.key, Format.JSON)).write_bytes(result.to_json())
    return folder


def run_of(folder: Path, *results: UnitResult) -> Run:
    """A run with these results."""
    return read_run(written(folder, *results))


UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""Properties are of what is computed, however busy the machine is."""

times = st.integers(0, 40).map(lambda tenths: tenths / 10)
turns = st.lists(
    st.tuples(times, times, st.sampled_from(["ann", "bob", "cat"])).map(
        lambda turn: (min(turn[:2]), max(turn[:2]), turn[2])
    ),
    max_size=6,
)
texts = st.lists(st.sampled_from(["one", "two", "Three!", "four-five", "6.5", "…"]), max_size=12).map(" ".join)


@st.composite
def results(draw: st.DrawFn, key: str = "call") -> UnitResult:
    """Any small result of a unit."""
    said = draw(texts)
    return heard(
        said,
        key=key,
        turns=draw(turns),
        speech=draw(st.lists(st.tuples(times, times), max_size=3)),
        confidence=draw(st.floats(0, 1).map(lambda value: round(value, 4))),
        result_class=draw(st.sampled_from(ResultClass)),
    )
