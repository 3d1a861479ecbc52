"""Diarization may start from the VAD pass's scores: the same turns from half the forwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from speech_audio import Samples, prepared

from volery.units import SAMPLE_RATE

if TYPE_CHECKING:
    from volery.speech.pipeline import SpeechPipeline

pytestmark = pytest.mark.models


def forwards(pipeline: SpeechPipeline, samples: Samples) -> tuple[object, int]:
    """What a pipeline makes of a unit, and the segmentation forwards seen on the live model."""
    shapes: list[tuple[int, ...]] = []
    model = pipeline.vad.segmenter.model
    hook = model.register_forward_hook(lambda _, inputs, __: shapes.append(tuple(inputs[0].shape)))
    try:
        (transcript,) = pipeline.process([prepared(samples)])
    finally:
        hook.remove()
    assert len(set(shapes)) == 1, "every forward has the full batch shape"
    return transcript, len(shapes)


def test_reuse_halves_the_forwards_and_changes_nothing(
    pipeline: SpeechPipeline, plain_pipeline: SpeechPipeline, talk: Samples
) -> None:
    dialogue = talk[6 * SAMPLE_RATE : 24 * SAMPLE_RATE]
    reused, few = forwards(pipeline, dialogue)
    plain, many = forwards(plain_pipeline, dialogue)
    assert many == 2 * few
    assert len({turn.speaker for turn in plain.turns}) == 2
    assert reused.turns == plain.turns
    assert reused.words == plain.words


def test_the_switch_is_reported_as_it_is(pipeline: SpeechPipeline, plain_pipeline: SpeechPipeline) -> None:
    assert pipeline.switch_states()["vad_segmentation_reuse"] == "on"
    assert plain_pipeline.switch_states()["vad_segmentation_reuse"] == "off"


def test_scores_of_other_audio_are_not_reused(pipeline: SpeechPipeline, talk: Samples) -> None:
    shorter = talk[: 12 * SAMPLE_RATE]
    scores = pipeline.vad.segmenter.scores(talk)
    assert pipeline.diarizer.turns(shorter, known=scores) == pipeline.diarizer.turns(shorter)


def test_scores_of_another_batch_shape_are_not_reused(pipeline: SpeechPipeline, talk: Samples) -> None:
    import torch

    from volery.speech.segmentation import Segmenter

    other = Segmenter(pipeline.vad.segmenter.weights, 2, torch.device("cpu"))
    assert not pipeline.diarizer.can_reuse(other.scores(talk[: 11 * SAMPLE_RATE]))
    assert not pipeline.diarizer.shares_model(other)


def test_silero_leaves_nothing_to_reuse() -> None:
    from volery.settings import ProviderConfig, SpeechSettings
    from volery.speech.pipeline import load_pipeline

    settings = SpeechSettings(models="embedded", device="cpu", vad_engine="silero")
    pipeline = load_pipeline(settings, ProviderConfig(vad_segmentation_reuse_enabled=True))
    assert pipeline.switch_states()["vad_segmentation_reuse"] == "inapplicable"
