"""What a worker is said to be at."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, Histogram

from volery.cli import progress


@pytest.mark.parametrize(
    ("ended", "now"),
    [
        ([], "fetching or publishing"),
        (["gpu_wait"], "looking for speech"),
        (["gpu_wait", "vad"], "finding out who speaks"),
        (["gpu_wait", "vad", "diarize"], "transcribing"),
        (["gpu_wait", "vad", "diarize", "asr"], "looking for speech"),
        (["gpu_wait", "vad", "diarize", "asr", "vad"], "finding out who speaks"),
        (["gpu_wait", "vad", "diarize", "asr", "worker_flight"], "fetching or publishing"),
    ],
)
def test_the_stage_now_is_the_one_after_those_that_ended(
    ended: list[str], now: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = CollectorRegistry()
    seconds = Histogram("batch_pipeline_stage_seconds", "As the worker's own.", ["stage"], registry=registry)
    monkeypatch.setattr(progress, "REGISTRY", registry)
    for stage in ended:
        seconds.labels(stage).observe(1.0)
    assert progress.stage_now() == now
