"""Diarization may start from the VAD pass's scores: the same turns from half the forwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from speech_audio import Samples, decoded, prepared

from volery.units import SAMPLE_RATE

if TYPE_CHECKING:
    from volery.speech.pipeline import SpeechPipeline

pytestmark = pytest.mark.models


def forwards(pipeline: SpeechPipeline, samples: Samples) -> tuple[Any, int]:
    """What a pipeline makes of a unit, and the segmentation forwards seen on the live model."""
    with counted_forwards(pipeline) as shapes:
        (transcript,) = pipeline.process([prepared(samples)])
    assert len(set(shapes)) == 1, "every forward has the full batch shape"
    return transcript, len(shapes)


@contextmanager
def counted_forwards(pipeline: SpeechPipeline) -> Iterator[list[tuple[int, ...]]]:
    """The input shapes of the live segmentation model's forwards."""
    shapes: list[tuple[int, ...]] = []
    model = pipeline.vad.segmenter.model
    hook = model.register_forward_hook(lambda _, inputs, __: shapes.append(tuple(inputs[0].shape)))
    try:
        yield shapes
    finally:
        hook.remove()


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


@pytest.mark.slow
def test_where_people_talk_at_once_reuse_changes_nothing(
    pipeline: SpeechPipeline, plain_pipeline: SpeechPipeline, shared_data: Path
) -> None:
    meeting = decoded(shared_data / "ami" / "trn08.wav")[12 * SAMPLE_RATE : 25 * SAMPLE_RATE]
    reused, few = forwards(pipeline, meeting)
    plain, many = forwards(plain_pipeline, meeting)
    assert many == 2 * few
    assert len({turn.speaker for turn in plain.turns}) >= 2
    assert (reused.turns, reused.words) == (plain.turns, plain.words)


def test_scores_that_match_leave_out_the_forward(pipeline: SpeechPipeline, talk: Samples) -> None:
    scores = pipeline.vad.segmenter.scores(talk)
    with counted_forwards(pipeline) as shapes:
        pipeline.diarizer.turns(talk, known=scores)
    assert shapes == []


def test_scores_of_other_audio_cost_a_second_forward(pipeline: SpeechPipeline, talk: Samples) -> None:
    shorter = talk[: 12 * SAMPLE_RATE]
    scores = pipeline.vad.segmenter.scores(talk)
    with counted_forwards(pipeline) as shapes:
        turns = pipeline.diarizer.turns(shorter, known=scores)
    assert shapes
    assert turns == pipeline.diarizer.turns(shorter)


@pytest.mark.parametrize("key", ["model", "window_s", "step_s", "batch", "samples"])
def test_scores_made_otherwise_cost_a_second_forward(pipeline: SpeechPipeline, talk: Samples, key: str) -> None:
    shorter = talk[: 12 * SAMPLE_RATE]
    scores = pipeline.vad.segmenter.scores(shorter)
    assert {field.name for field in fields(scores.made)} == {"model", "window_s", "step_s", "batch", "samples"}
    made = getattr(scores.made, key)
    other = "other" if isinstance(made, str) else made + 1
    with counted_forwards(pipeline) as shapes:
        pipeline.diarizer.turns(shorter, known=replace(scores, made=replace(scores.made, **{key: other})))
    assert shapes


def test_a_segmenter_of_another_batch_shape_has_nothing_to_share(pipeline: SpeechPipeline, talk: Samples) -> None:
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
