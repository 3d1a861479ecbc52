"""Where somebody speaks: two engines with one answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt
import torch

from volery.speech import models
from volery.speech.segments import Activity, Thresholds, speech_segments
from volery.units import SAMPLE_RATE, ModelInfo, Segment

if TYPE_CHECKING:
    from volery.speech.segmentation import SegmentationScores, Segmenter  # which imports pyannote

PYANNOTE = Thresholds(onset=0.5, offset=0.5, min_speech_s=0.1, min_pause_s=0.1)
"""0.5 is what pyannote's `VoiceActivityDetection` fixes for powerset models, which need no tuning;
the durations are WhisperX's defaults for pyannote: a digit may be said in 0.2 s."""

SILERO = Thresholds(onset=0.5, offset=0.35, min_speech_s=0.1, min_pause_s=0.1)
"""silero-vad's own defaults, save its shortest speech of 0.25 s, which loses single words."""

SILERO_FRAME = 512
"""Samples of a frame; the model refuses less than one."""


@dataclass(frozen=True, slots=True, eq=False)
class Detection:
    """What a VAD engine found in one unit; `segmentation` is there for diarization to reuse."""

    speech: tuple[Segment, ...]
    activity: Activity
    segmentation: SegmentationScores | None = None


class VadEngine(Protocol):
    """Finds speech in 16 kHz mono samples."""

    @property
    def info(self) -> ModelInfo:
        """The model, role `vad`."""
        ...

    def detect(self, samples: npt.NDArray[np.float32]) -> Detection:
        """Speech in one unit of any length, none included."""
        ...

    def probability(self, samples: npt.NDArray[np.float32], detection: Detection) -> Activity:
        """How probable it is, frame by frame, that somebody speaks in a unit in which speech was detected."""
        ...


class PyannoteVad:
    """VAD from a segmentation pass, whose raw scores diarization can reuse."""

    def __init__(self, segmenter: Segmenter) -> None:
        self.segmenter = segmenter
        self.info = segmenter.weights.info("vad")

    def detect(self, samples: npt.NDArray[np.float32]) -> Detection:
        """Speech in one unit of any length, none included."""
        if not len(samples):
            return Detection((), _nothing())
        scores = self.segmenter.scores(samples)
        activity = Activity(*self.segmenter.speech(scores))
        return Detection(speech_segments(activity, PYANNOTE, len(samples) / SAMPLE_RATE), activity, scores)

    def probability(self, samples: npt.NDArray[np.float32], detection: Detection) -> Activity:
        """How probable it is, frame by frame, that somebody speaks; a second pass."""
        return Activity(*self.segmenter.probability(samples))


class SileroVad:
    """Silero VAD, TorchScript, on the CPU."""

    def __init__(self) -> None:
        weights = models.SILERO.find().checked()
        self.info = weights.info("vad")
        self._model = torch.jit.load(weights.path, map_location="cpu").eval()  # type: ignore[no-untyped-call]

    @torch.inference_mode()
    def detect(self, samples: npt.NDArray[np.float32]) -> Detection:
        """Speech in one unit of any length, none included."""
        if not len(samples):
            return Detection((), _nothing())
        whole = np.pad(samples, (0, -len(samples) % SILERO_FRAME))
        scores = self._model.audio_forward(torch.from_numpy(whole)[None], sr=SAMPLE_RATE)[0].numpy()
        step_s = SILERO_FRAME / SAMPLE_RATE
        activity = Activity(scores, step_s / 2, step_s)
        return Detection(speech_segments(activity, SILERO, len(samples) / SAMPLE_RATE), activity)

    def probability(self, samples: npt.NDArray[np.float32], detection: Detection) -> Activity:
        """How probable it is, frame by frame, that somebody speaks: what was detected by."""
        return detection.activity


def _nothing() -> Activity:
    return Activity(np.zeros(0, dtype=np.float32), 0.0, 1.0)
