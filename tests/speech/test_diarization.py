"""Who speaks when, measured against references."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from speech_audio import Samples, decoded, silence

from volery.units import SAMPLE_RATE, ConfigurationError, Turn

if TYPE_CHECKING:
    from pyannote.core import Annotation, Timeline

    from volery.speech.diarization import Diarizer
    from volery.speech.pipeline import SpeechPipeline

pytestmark = pytest.mark.models

LEAST_REFERENCE_S = 10.0
"""Files with less reference speech than this say nothing about diarization."""


def as_annotation(turns: tuple[Turn, ...]) -> Annotation:
    from pyannote.core import Annotation, Segment

    annotation = Annotation()
    for track, turn in enumerate(turns):
        annotation[Segment(turn.start_s, turn.end_s), track] = turn.speaker
    return annotation


def references(path: Path) -> dict[str, Annotation]:
    from pyannote.core import Annotation, Segment

    found: dict[str, Annotation] = defaultdict(Annotation)
    for track, line in enumerate(path.read_text().splitlines()):
        _, uri, _, start, length, _, _, speaker, *_ = line.split()
        found[uri][Segment(float(start), float(start) + float(length)), track] = speaker
    return found


def scored_parts(path: Path) -> dict[str, Timeline]:
    from pyannote.core import Segment, Timeline

    found: dict[str, Timeline] = defaultdict(Timeline)
    for line in path.read_text().splitlines():
        uri, _, start, end = line.split()
        found[uri].add(Segment(float(start), float(end)))
    return found


@pytest.fixture(scope="session")
def talk_turns(pipeline: SpeechPipeline, talk: Samples) -> tuple[Turn, ...]:
    return pipeline.diarizer.turns(talk)


def test_the_conversation_has_two_speakers_and_few_errors(talk_turns: tuple[Turn, ...], conversation: Path) -> None:
    from pyannote.core import Segment, Timeline
    from pyannote.metrics.diarization import DiarizationErrorRate

    reference = references(conversation.with_suffix(".rttm"))["sample"]
    error = DiarizationErrorRate()(reference, as_annotation(talk_turns), uem=Timeline([Segment(0, 30)]))
    assert {turn.speaker for turn in talk_turns} == {"SPEAKER_00", "SPEAKER_01"}
    assert error <= 0.06


def test_fewer_speakers_than_are_asked_for_leave_standard_output_alone(
    pipeline: SpeechPipeline, talk: Samples, capsys: pytest.CaptureFixture[str]
) -> None:
    assert pipeline.diarizer.turns(talk[: 15 * SAMPLE_RATE], num_speakers=20)
    assert capsys.readouterr().out == ""


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_real_meetings_stay_within_the_known_error(pipeline: SpeechPipeline, shared_data: Path) -> None:
    from pyannote.metrics.diarization import DiarizationErrorRate

    folder = shared_data / "ami"
    scored, error, files = scored_parts(folder / "train.uem"), DiarizationErrorRate(), 0
    for uri, reference in references(folder / "train.rttm").items():
        spoken = sum(segment.duration for segment, _ in reference.crop(scored[uri]).itertracks())
        if spoken >= LEAST_REFERENCE_S:
            turns = pipeline.diarizer.turns(decoded(folder / f"{uri}.wav"))
            error(reference, as_annotation(turns), uem=scored[uri])
            files += 1
    assert files == 7
    assert abs(error) <= 0.245


def test_speakers_are_numbered_by_first_appearance(talk_turns: tuple[Turn, ...]) -> None:
    assert list(dict.fromkeys(turn.speaker for turn in talk_turns)) == ["SPEAKER_00", "SPEAKER_01"]
    assert list(talk_turns) == sorted(talk_turns, key=lambda turn: (turn.start_s, turn.end_s))


def test_a_known_number_of_speakers_is_respected(pipeline: SpeechPipeline, talk: Samples) -> None:
    assert {turn.speaker for turn in pipeline.diarizer.turns(talk[: 15 * SAMPLE_RATE], num_speakers=1)} == {
        "SPEAKER_00"
    }


@pytest.mark.parametrize("seconds", [0.02, 3.0, 10.0, 12.5])
def test_nobody_speaks_in_silence_of_any_length(pipeline: SpeechPipeline, seconds: float) -> None:
    assert pipeline.diarizer.turns(silence(seconds)) == ()


def test_speech_too_short_for_an_embedding_still_has_a_speaker(pipeline: SpeechPipeline, shared_data: Path) -> None:
    turns = pipeline.diarizer.turns(decoded(shared_data / "audio-cases" / "one_digit.wav"))
    assert {turn.speaker for turn in turns} == {"SPEAKER_00"}


@pytest.fixture(scope="session")
def local_diarizer(pipeline: SpeechPipeline, tmp_path_factory: pytest.TempPathFactory) -> Diarizer:
    import local_pipeline
    import torch

    from volery.speech.diarization import load_diarizer

    folder = local_pipeline.build(tmp_path_factory.mktemp("pipeline"), pipeline.vad.segmenter.weights.path)
    return load_diarizer(str(folder), pipeline.vad.segmenter, 4, torch.device("cpu"))


def test_a_pretrained_pipeline_with_the_same_segmentation_reuses_its_scores(
    local_diarizer: Diarizer, pipeline: SpeechPipeline, talk: Samples
) -> None:
    part = talk[7 * SAMPLE_RATE : 19 * SAMPLE_RATE]
    known = pipeline.vad.detect(part).segmentation
    assert local_diarizer.shares_model(pipeline.vad.segmenter)
    assert local_diarizer.can_reuse(known)
    turns = local_diarizer.turns(part, known=known)
    assert turns == local_diarizer.turns(part)
    assert turns


def test_a_pretrained_pipeline_names_its_models(local_diarizer: Diarizer) -> None:
    infos = local_diarizer.segmentation, local_diarizer.embedding
    assert [info.role for info in infos] == ["segmentation", "embedding"]
    assert all(len(info.digest) == 64 for info in infos)


def test_a_file_that_is_no_pipeline_is_named(tmp_path: Path) -> None:
    import torch

    from volery.speech.diarization import load_diarizer

    config = tmp_path / "config.yaml"
    config.write_text("nothing: here")
    with pytest.raises(ConfigurationError, match=r"config\.yaml cannot be loaded"):
        load_diarizer(str(config), None, 4, torch.device("cpu"))
