"""Who speaks when: pyannote's diarization pipeline."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch

from volery.speech.choice import DIARIZATION_SETTING, NOT_PINNED, Pinned, checked_pipeline, diarization_model
from volery.speech.embedding import CamPlusPlusEmbedding
from volery.speech.hub import HubModel
from volery.speech.models import EMBEDDING, SEGMENTATION, LocalModel
from volery.speech.quiet import quiet_import
from volery.speech.segmentation import (
    FullBatchInference,
    SegmentationScores,
    Segmenter,
    as_file,
    pass_of,
    state_digest,
)
from volery.speech.segments import whole_ms
from volery.units import SAMPLE_RATE, ConfigurationError, ModelInfo, Turn

with quiet_import():
    from pyannote.audio import Pipeline
    from pyannote.audio.pipelines import clustering, speaker_diarization
    from pyannote.audio.pipelines.speaker_diarization import DiarizeOutput, SpeakerDiarization
    from pyannote.core import Annotation

CLUSTERING = {"method": "centroid", "min_cluster_size": 12, "threshold": 0.7045654963945799}
"""The clustering parameters of pyannote/speaker-diarization-3.1. Cropped CAM++ embeddings hardly
mind the threshold."""

# It prints where it finds fewer speakers than are asked for: into what a command prints, such as a result as JSON.
vars(clustering)["print"] = lambda *_, **__: None

_KNOWN = "volery/segmentation"
_MASKS_A_CALL = 24
"""Masks handed to the embedding together: those of eight windows, three speakers each."""


class Diarizer:
    """A loaded diarization pipeline that can start from segmentation scores made elsewhere."""

    def __init__(
        self,
        pipeline: SpeakerDiarization,
        models: tuple[ModelInfo, ModelInfo],
        batch: int,
        device: torch.device,
    ) -> None:
        model = pipeline._segmentation.model
        pipeline._segmentation = FullBatchInference(
            model,
            duration=pipeline._segmentation.duration,
            step=pipeline._segmentation.step,
            skip_aggregation=True,
            batch_size=batch,
            device=device,
        )
        setattr(pipeline, "get_segmentations", _known_or(pipeline.get_segmentations))  # noqa: B010  # mypy refuses a method's assignment
        self.segmentation, self.embedding = models
        self._pipeline = pipeline.to(device)
        self._digest = state_digest(model)

    def can_reuse(self, scores: SegmentationScores) -> bool:
        """True where its own pass over the same audio would give the same scores."""
        return scores.made == pass_of(self._pipeline._segmentation, self._digest, scores.made.samples)

    def shares_model(self, segmenter: Segmenter) -> bool:
        """True where a pass of that segmenter can stand in for its own."""
        own = pass_of(self._pipeline._segmentation, self._digest, SAMPLE_RATE)
        return segmenter.expected(SAMPLE_RATE) == own

    def turns(
        self,
        samples: npt.NDArray[np.float32],
        *,
        num_speakers: int | None = None,
        known: SegmentationScores | None = None,
    ) -> tuple[Turn, ...]:
        """Turns by start, which may overlap; speakers are numbered by first appearance.

        With `known` scores that match, the pipeline's own segmentation pass is left out.
        """
        file = as_file(samples)
        if known is not None and self.can_reuse(known) and known.made.samples == len(samples):
            file[_KNOWN] = known.scores
        output = self._pipeline(file, num_speakers=num_speakers)
        annotation = output if isinstance(output, Annotation) else cast("DiarizeOutput", output).speaker_diarization
        return _turns_of(annotation, len(samples) / SAMPLE_RATE)


def load_diarizer(
    name: str | None, segmenter: Segmenter | None, batch: int, device: torch.device, pinned: Pinned = NOT_PINNED
) -> Diarizer:
    """The diarizer that a setting names: `embedded` or none, a path, or a hub name.

    The embedded one takes the segmenter's model where there is one.

    Raises:
        ConfigurationError: it cannot be found, fetched or used, or is not what is pinned.
    """
    model = diarization_model(name, pinned)
    if model is None:
        return _embedded(segmenter or Segmenter(SEGMENTATION.find(), batch, device), batch, device)
    pipeline = _pretrained(model)
    if not isinstance(pipeline, SpeakerDiarization):
        kind = type(pipeline).__name__
        raise ConfigurationError(f"{DIARIZATION_SETTING}={name} is a {kind}, not a speaker diarization pipeline")
    return Diarizer(pipeline, _infos(pipeline, model), batch, device)


def _embedded(segmenter: Segmenter, batch: int, device: torch.device) -> Diarizer:
    weights = EMBEDDING.find().checked()
    with _taking_embedding(CamPlusPlusEmbedding(weights.path, device)):
        pipeline = SpeakerDiarization(
            segmentation=segmenter.model,
            clustering="AgglomerativeClustering",
            plda=cast("str", None),
            embedding_batch_size=_MASKS_A_CALL,
        )
    pipeline.instantiate({"segmentation": {"min_duration_off": 0.0}, "clustering": CLUSTERING})
    infos = segmenter.weights.info("segmentation"), weights.info("embedding")
    return Diarizer(pipeline, infos, batch, device)


@contextmanager
def _taking_embedding(embedding: CamPlusPlusEmbedding) -> Iterator[None]:
    """The pipeline's constructor resolves names through these two functions of its module and
    accepts neither an embedding that is already loaded nor the absence of a PLDA."""
    names = vars(speaker_diarization)
    plain = {name: names[name] for name in ("PretrainedSpeakerEmbedding", "get_plda")}
    names.update(PretrainedSpeakerEmbedding=lambda *_, **__: embedding, get_plda=lambda *_, **__: None)
    try:
        yield
    finally:
        names.update(plain)


def _pretrained(model: LocalModel | HubModel) -> Pipeline | None:
    weights = checked_pipeline(model.fetch())
    try:
        return Pipeline.from_pretrained(weights.path)
    except Exception as error:  # a broken checkpoint fails in many ways
        raise ConfigurationError(
            f"{DIARIZATION_SETTING}={model.name} cannot be loaded from {weights.path}: {type(error).__name__}: {error}"
        ) from error


def _infos(pipeline: SpeakerDiarization, model: LocalModel | HubModel) -> tuple[ModelInfo, ModelInfo]:
    """The models inside a pretrained pipeline, which does not say what files they came from."""
    embedding = getattr(pipeline._embedding, "model_", None)
    digests = state_digest(pipeline._segmentation.model), state_digest(embedding) if embedding else "unknown"
    return (
        ModelInfo("segmentation", f"{model.name}/segmentation", model.kind, digests[0]),
        ModelInfo("embedding", f"{model.name}/embedding", model.kind, digests[1]),
    )


def _known_or(plain: Callable[..., Any]) -> Callable[..., Any]:
    def get_segmentations(file: dict[str, Any], hook: Callable[..., Any] | None = None) -> Any:
        known = file.get(_KNOWN)
        return plain(file, hook=hook) if known is None else known

    return get_segmentations


def _turns_of(annotation: Annotation, duration_s: float) -> tuple[Turn, ...]:
    stretches = sorted(
        (max(0.0, segment.start), min(duration_s, segment.end), str(label))
        for segment, _, label in annotation.itertracks(yield_label=True)
    )
    names: dict[str, str] = {}
    return tuple(
        Turn(
            whole_ms(start, duration_s), whole_ms(end, duration_s), names.setdefault(label, f"SPEAKER_{len(names):02d}")
        )
        for start, end, label in stretches
        if end - start >= 1e-3
    )
