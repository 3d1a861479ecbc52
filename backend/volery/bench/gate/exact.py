"""Whether two results of one unit are exactly the same in what was said, when, by whom and how sure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from pydantic import BaseModel

from volery.bench.gate.runs import Result

CONFIDENCE = 1e-3
"""How far confidences may differ: the order of additions on an accelerator shows in their last digits."""

_ROUNDING = 1e-9


def first_difference(base: Result, candidate: Result) -> str | None:
    """The first thing that differs, as `words[3].start_s: 1.2 → 1.28`; None where nothing does.

    Class, words (text, start, end, speaker, and confidence within `CONFIDENCE`), turns and speech
    are compared; timings, switches, versions, models and the attempt are not.
    """
    return next(
        chain(
            _values("class", str(base.result_class), str(candidate.result_class)),
            _records("words", base.words, candidate.words),
            _records("turns", base.turns, candidate.turns),
            _records("speech", base.speech, candidate.speech),
        ),
        None,
    )


def _records(name: str, base: Sequence[BaseModel], candidate: Sequence[BaseModel]) -> Iterator[str]:
    for place, (ours, theirs) in enumerate(zip(base, candidate, strict=False)):
        for field in type(ours).model_fields:
            yield from _values(f"{name}[{place}].{field}", getattr(ours, field), getattr(theirs, field))
    yield from _values(f"number of {name}", len(base), len(candidate))


def _values(what: str, ours: object, theirs: object) -> Iterator[str]:
    if ours != theirs and not (what.endswith(".confidence") and _near(ours, theirs)):
        yield f"{what}: {ours!r} → {theirs!r}"


def _near(ours: object, theirs: object) -> bool:
    return isinstance(ours, float) and isinstance(theirs, float) and abs(ours - theirs) <= CONFIDENCE + _ROUNDING
