"""Words from the hypotheses of a TDT decoder: their own frames, durations and confidences.

NeMo's `timestamps=True` computes the same offsets in slow Python and sets the decoding strategy
anew on the way, so that another object decodes than the one that was pinned.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from volery.speech.asr import HypothesisWord

_WORD_START = "▁"


@dataclass(frozen=True, slots=True)
class WordOffsets:
    """Seconds added to starts and ends: a transducer may emit early or late. Measured for each model."""

    start_s: float = 0.0
    end_s: float = 0.0


@dataclass(frozen=True, slots=True)
class _Token:
    piece: str
    id: int
    frame: int
    duration: int
    confidence: float


class WordMaker:
    """Turns a NeMo hypothesis into words; `frame_s` is the length of an encoder frame in seconds."""

    def __init__(self, tokenizer: Any, frame_s: float, offsets: WordOffsets) -> None:
        self._tokenizer = tokenizer
        self._frame_s = frame_s
        self._offsets = offsets

    def words(self, heard: Any, later_s: float = 0.0) -> Iterator[HypothesisWord]:
        """The words, each `later_s` seconds after where the decoder put it.

        A word lasts from its first token to the end of its last one; its confidence is the mean of its tokens'.
        """
        for tokens in _by_word(list(self._tokens(heard))):
            start_s = tokens[0].frame * self._frame_s + self._offsets.start_s + later_s
            end_s = (tokens[-1].frame + max(tokens[-1].duration, 1)) * self._frame_s + self._offsets.end_s + later_s
            confidence = sum(token.confidence for token in tokens) / len(tokens)
            for text in self._tokenizer.ids_to_text([token.id for token in tokens]).split():
                yield HypothesisWord(text, start_s, end_s, confidence)

    def _tokens(self, heard: Any) -> Iterator[_Token]:
        ids = [int(token) for token in heard.y_sequence]
        pieces = self._tokenizer.ids_to_tokens(ids)
        frames, durations = (np.asarray(values).tolist() for values in (heard.timestamp, heard.token_duration))
        confidences = [float(value) for value in heard.token_confidence]
        for fields in zip(pieces, ids, frames, durations, confidences, strict=True):
            yield _Token(*fields)


def _by_word(tokens: Sequence[_Token]) -> list[list[_Token]]:
    words: list[list[_Token]] = []
    for token in tokens:
        if not words or token.piece.startswith(_WORD_START):
            words.append([])
        words[-1].append(token)
    return words
