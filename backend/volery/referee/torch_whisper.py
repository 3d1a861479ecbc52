"""Whisper through torch, for the referee on an accelerator."""

from __future__ import annotations

import logging
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers import WhisperForConditionalGeneration, WhisperProcessor

from volery.referee.cases import Heard
from volery.speech.whisper import LOOP_RATIO
from volery.units import SAMPLE_RATE

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

BATCH_WINDOWS = 8
"""Windows heard at once: with the largest model it stays well below the floor of free memory."""

_SEARCH: dict[str, Any] = {
    "num_beams": 5,
    "temperature": 0.0,
    "no_speech_threshold": 0.6,
    "logprob_threshold": -1.0,
    "condition_on_prev_tokens": False,
}
"""As `volery.speech.whisper` searches: nothing is sampled, so that a unit is judged alike every time."""


class TorchWhisper:
    """Hears windows in batches; in float16 on an accelerator."""

    def __init__(self, folder: Path, device: str) -> None:
        logging.getLogger("transformers").setLevel(logging.ERROR)  # it warns of padding with every batch
        self._device = torch.device(device)
        self._type = torch.float32 if self._device.type == "cpu" else torch.float16
        self._processor: Any = WhisperProcessor.from_pretrained(folder)
        model: Any = WhisperForConditionalGeneration.from_pretrained(folder, dtype=self._type, use_safetensors=True)
        self._model = model.to(self._device).eval()
        self._codes = _language_codes(self._model.generation_config)
        self.languages = frozenset(self._codes.values()) or frozenset(("en",))

    @torch.inference_mode()
    def hear(self, windows: Sequence[npt.NDArray[np.float32]], language: str | None) -> list[Heard]:
        """See `Engine.hear`."""
        batches = (windows[first : first + BATCH_WINDOWS] for first in range(0, len(windows), BATCH_WINDOWS))
        return [heard for batch in batches for heard in self._batch(batch, language)]

    def _batch(self, windows: Sequence[npt.NDArray[np.float32]], language: str | None) -> list[Heard]:
        features = self._processor(list(windows), sampling_rate=SAMPLE_RATE, return_tensors="pt").input_features
        features = features.to(self._device, self._type)
        languages = self._spoken(features) if language is None else [language] * len(windows)
        texts = self._texts(features, languages)
        if looping := [index for index, text in enumerate(texts) if _loops(text)]:
            again = self._texts(features[looping], [languages[index] for index in looping], no_repeat_ngram_size=3)
            for index, text in zip(looping, again, strict=True):
                texts[index] = text
        return [Heard(text, spoken) for text, spoken in zip(texts, languages, strict=True)]

    def _spoken(self, features: torch.Tensor) -> list[str]:
        if not self._codes:
            return ["en"] * len(features)
        return [self._codes[token] for token in self._model.detect_language(features).tolist()]

    def _texts(self, features: torch.Tensor, languages: list[str], **search: Any) -> list[str]:
        """A model of English alone does not take a language."""
        asked = {"language": languages, "task": "transcribe"} if self._codes else {}
        tokens = self._model.generate(features, **_SEARCH, **asked, **search)
        return [text.strip() for text in self._processor.batch_decode(tokens, skip_special_tokens=True)]


def _language_codes(config: Any) -> dict[int, str]:
    """The codes of languages by their tokens; none of a model of English alone."""
    if not getattr(config, "is_multilingual", True):
        return {}
    return {token: name.strip("<|>") for name, token in getattr(config, "lang_to_id", {}).items()}


def _loops(text: str) -> bool:
    said = text.encode()
    return len(said) > LOOP_RATIO * len(zlib.compress(said))
