"""Which variables an arm's worker starts from."""

from __future__ import annotations

import os

import pytest

from volery.bench.arms import Arm, parse_arm
from volery.bench.environment import Environment, pod_environment, process_environment
from volery.settings import known_names
from volery.units import ConfigurationError


def layered(**layers: dict[str, str]) -> Environment:
    names = ("pod", "profile", "process", "options")
    return Environment(
        **{name: {f"BATCH_PIPELINE_{key}": value for key, value in layers.get(name, {}).items()} for name in names}
    )


def test_each_layer_has_its_say_over_those_before_it() -> None:
    environment = layered(
        pod={"LANES": "1", "FLIGHT_UNITS": "1", "ARTIFACT_IO_THREADS": "1", "GROUP_SECONDS": "1", "LOG_LEVEL": "INFO"},
        profile={"LANES": "2", "FLIGHT_UNITS": "2", "ARTIFACT_IO_THREADS": "2", "GROUP_SECONDS": "2"},
        process={"LANES": "3", "FLIGHT_UNITS": "3", "ARTIFACT_IO_THREADS": "3"},
        options={"LANES": "4", "FLIGHT_UNITS": "4"},
    )
    settings = environment.settings(parse_arm("LANES=5"))
    worker = settings.worker
    assert (worker.lanes, worker.flight_units, worker.artifact_io_threads, worker.group_seconds) == (5, 4, 3, 2.0)


def test_nothing_else_of_the_process_reaches_an_arm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BATCH_PIPELINE_LANES", "7")
    assert layered().settings(parse_arm("all-on")).worker.lanes == 2
    assert os.environ["BATCH_PIPELINE_LANES"] == "7"
    assert process_environment() == {"BATCH_PIPELINE_LANES": "7"}


def test_no_password_and_nothing_unknown_is_taken_along(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"DATABASE_URL": "postgresql://u:secret@h/d", "ARTIFACTS_URL": "gs://b", "NEWER": "1"}.items():
        monkeypatch.setenv(f"BATCH_PIPELINE_{name}", value)
    assert process_environment() == {}


def test_a_value_that_makes_no_sense_is_named_with_its_arm() -> None:
    with pytest.raises(ConfigurationError, match=r"arm LANES=none: BATCH_PIPELINE_LANES: "):
        layered().settings(parse_arm("LANES=none"))


def test_a_pod_of_the_chart_says_what_its_worker_needs() -> None:
    pod = pod_environment()
    assert pod["BATCH_PIPELINE_LANES"] == "2"
    assert set(pod) <= known_names()
    settings = Environment(pod, {}, {}, {}).settings(Arm("plain", {}))
    assert settings.speech.device == "cuda"
