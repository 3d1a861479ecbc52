"""One pass of pyannote segmentation over a unit: the scores that VAD and diarization both start from."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional

from volery.speech.device import one_thread
from volery.speech.models import Weights
from volery.speech.quiet import quiet_import
from volery.units import SAMPLE_RATE

with quiet_import():
    from pyannote.audio import Inference, Model
    from pyannote.core import SlidingWindowFeature

if TYPE_CHECKING:
    from pyannote.audio.core.task import Specifications

STEP_RATIO = 0.1
"""Step of the sliding window as a part of its length: pyannote's own default for diarization."""


@dataclass(frozen=True, slots=True)
class Pass:
    """What a segmentation pass depends on: two passes over the same audio with equal values agree exactly."""

    model: str
    window_s: float
    step_s: float
    batch: int
    samples: int


@dataclass(frozen=True, slots=True, eq=False)
class SegmentationScores:
    """Raw scores of one pass, shape `(windows, frames, speakers)`, and what they were made with."""

    scores: SlidingWindowFeature
    made: Pass


class FullBatchInference(Inference):
    """pyannote's sliding window in which every forward has the full batch shape.

    A smaller last batch makes cuDNN choose another algorithm, with other numbers and at times
    gigabytes more memory; with one shape a window's scores do not depend on how many follow it.
    """

    def infer(self, chunks: torch.Tensor) -> npt.NDArray[np.float32]:
        """Scores of up to a batch of windows, `(windows, channels, samples)`."""
        missing = self.batch_size - len(chunks)
        with one_thread():  # on a CPU an LSTM is a long row of small operators
            scores = super().infer(functional.pad(chunks, (0, 0, 0, 0, 0, missing)))
        return cast("npt.NDArray[np.float32]", scores)[: len(chunks)]

    def slide(self, waveform: torch.Tensor, sample_rate: int, hook: Any) -> SlidingWindowFeature:
        """Complete the last window with zeros, as pyannote does, so that it shares a batch with the others."""
        window, step = round(self.duration * sample_rate), round(self.step * sample_rate)
        beyond = waveform.shape[1] - window
        missing = -beyond if beyond < 0 else -beyond % step
        return super().slide(functional.pad(waveform, (0, missing)), sample_rate, hook)


class Segmenter:
    """pyannote segmentation over whole units, in windows of 10 s every second."""

    def __init__(self, weights: Weights, batch: int, device: torch.device) -> None:
        self.weights = weights.checked()
        self.model = cast("Model", Model.from_pretrained(weights.path, map_location=device)).eval()
        self._over_windows = partial(
            FullBatchInference,
            self.model,
            step=STEP_RATIO * cast("Specifications", self.model.specifications).duration,
            skip_aggregation=True,
            batch_size=batch,
            device=device,
        )
        self.inference = self._over_windows()
        self._digest = state_digest(self.model)

    @cached_property
    def _unconverted(self) -> FullBatchInference:
        """For `probability` alone, which most workers never ask for."""
        return self._over_windows(skip_conversion=True)

    def scores(self, samples: npt.NDArray[np.float32]) -> SegmentationScores:
        """Run the pass over `samples`, mono at 16 kHz and at least one of them."""
        return SegmentationScores(self.inference(as_file(samples)), self.expected(len(samples)))

    def expected(self, samples: int) -> Pass:
        """What a pass over that many samples is made with."""
        return pass_of(self.inference, self._digest, samples)

    def speech(self, scores: SegmentationScores) -> tuple[npt.NDArray[np.float32], float, float]:
        """How surely somebody speaks in each frame; the middle of the first frame and the step, in seconds.

        Any speaker of a window counts, and windows are averaged under a Hamming window: pyannote's
        `VoiceActivityDetection` does the same.
        """
        return self._merged(np.max(scores.scores, axis=-1, keepdims=True))

    def probability(self, samples: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.float32], float, float]:
        """As `speech`, but how probable it is that anybody speaks, from a pass of its own.

        The scores of a pass name the likeliest speakers, each with 1: they are as high where that is hardly likelier
        than silence. Silence is the model's first class.
        """
        classes = cast("SlidingWindowFeature", self._unconverted(as_file(samples)))
        return self._merged(SlidingWindowFeature(1 - np.exp(classes.data[..., :1]), classes.sliding_window))

    def _merged(self, anyone: SlidingWindowFeature) -> tuple[npt.NDArray[np.float32], float, float]:
        merged = Inference.aggregate(anyone, self.model.receptive_field, hamming=True, missing=0.0)
        frames = merged.sliding_window
        return merged.data[:, 0], frames[0].middle, frames.step


def pass_of(inference: Inference, digest: str, samples: int) -> Pass:
    """What a pass of some inference over that many samples is made with."""
    return Pass(digest, inference.duration, inference.step, inference.batch_size, samples)


def as_file(samples: npt.NDArray[np.float32]) -> dict[str, Any]:
    """Samples as pyannote takes them: a waveform needs no decoder."""
    owned = samples if samples.flags.writeable else samples.copy()
    return {"waveform": torch.from_numpy(owned)[None], "sample_rate": SAMPLE_RATE, "uri": "unit"}


def state_digest(model: torch.nn.Module) -> str:
    """SHA-256 over the names and values of a model's weights, wherever they were loaded from."""
    digest = hashlib.sha256()
    for name, value in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(value.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
