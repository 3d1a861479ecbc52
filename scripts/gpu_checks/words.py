"""Whether the same windows were heard alike twice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from volery.speech.asr import Hypothesis, HypothesisWord

TOLERANCE = 1e-3
"""Of times in seconds and of confidences."""


def differences(expected: Sequence[Hypothesis], found: Sequence[Hypothesis]) -> list[str]:
    """Where two hearings of the same windows differ. No word is told: receipts are shown around."""
    if len(expected) != len(found):
        return [f"{len(found)} hypotheses, not {len(expected)}"]
    pairs = enumerate(zip(expected, found, strict=True))
    return [f"window {index}: {line}" for index, (one, other) in pairs for line in _between(one, other)]


def count(hypotheses: Sequence[Hypothesis]) -> int:
    """How many words there are in all."""
    return sum(len(each.words) for each in hypotheses)


def _between(expected: Hypothesis, found: Hypothesis) -> Iterator[str]:
    if len(expected.words) != len(found.words):
        yield f"{len(found.words)} words, not {len(expected.words)}"
        return
    for index, (one, other) in enumerate(zip(expected.words, found.words, strict=True)):
        yield from (f"word {index}: {line}" for line in _word(one, other))


def _word(expected: HypothesisWord, found: HypothesisWord) -> Iterator[str]:
    if expected.text != found.text:
        yield "another text"
    for name in ("start_s", "end_s", "confidence"):
        one, other = getattr(expected, name), getattr(found, name)
        if abs(one - other) > TOLERANCE:
            yield f"{name} {other:.4f}, not {one:.4f}"
