"""Settings: read from the environment by fixed names, and slips in a name are caught."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from volery.settings import (
    DECLARED,
    GROUPS,
    PREFIX,
    ProviderConfig,
    QueueSettings,
    Settings,
    SpeechSettings,
    WorkerSettings,
    _is_slip,
    check_environment,
    known_names,
)
from volery.units import ConfigurationError

FIXED = [
    "DATABASE_URL",
    "ARTIFACTS_URL",
    "LANES",
    "FLIGHT_UNITS",
    "DECODE_BUDGET_SECONDS",
    "GROUP_SECONDS",
    "ARTIFACT_IO_THREADS",
    "LEASE_SECONDS",
    "MAX_ATTEMPTS",
    "ADMISSION_DEADLINE_SECONDS",
    "DRAIN_SECONDS",
    "DEVICE",
    "MODELS",
    "ASR_ENGINE",
    "ASR_MODEL",
    "VAD_ENGINE",
    "DIARIZATION_MODEL",
    "LOG_LEVEL",
    "PREPARE_FLIGHT_ENABLED",
    "VAD_SEGMENTATION_REUSE_ENABLED",
    "ASR_CUDA_GRAPHS_ENABLED",
    "VAD_SHADOW_SAMPLE_RATE",
    "VAD_RECOVERY_ENABLED",
]
KILL_SWITCHES = ["prepare_flight_enabled", "vad_segmentation_reuse_enabled", "asr_cuda_graphs_enabled"]
SWITCHES = [*KILL_SWITCHES, "vad_recovery_enabled"]


def test_the_names_that_operators_rely_on_exist() -> None:
    assert {f"BATCH_PIPELINE_{name}" for name in FIXED} <= known_names()


def test_no_two_groups_read_the_same_name() -> None:
    names = [name for group in GROUPS for name in group.model_fields]
    assert len(names) == len(set(names))


def test_the_defaults_are_those_of_the_design() -> None:
    worker, queue = WorkerSettings(), QueueSettings()
    assert (worker.lanes, worker.flight_units, worker.artifact_io_threads) == (2, 8, 5)
    assert (worker.decode_budget_seconds, worker.group_seconds) == (1800.0, 7200.0)
    assert (queue.lease_seconds, queue.max_attempts) == (120.0, 3)


@pytest.mark.parametrize("switch", SWITCHES)
@pytest.mark.parametrize(("value", "state"), [("true", True), ("false", False), ("1", True), ("0", False)])
def test_each_switch_reads_either_value(monkeypatch: pytest.MonkeyPatch, switch: str, value: str, state: bool) -> None:
    monkeypatch.setenv(f"BATCH_PIPELINE_{switch.upper()}", value)
    assert getattr(ProviderConfig(), switch) is state


@pytest.mark.parametrize("switch", KILL_SWITCHES)
def test_each_kill_switch_ships_on(switch: str) -> None:
    assert getattr(ProviderConfig(), switch) is True


def test_recovery_which_may_change_answers_ships_off() -> None:
    assert ProviderConfig().vad_recovery_enabled is False


@pytest.mark.parametrize("value", ["-0.1", "1.01", "nan"])
def test_a_share_of_units_is_between_0_and_1(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("BATCH_PIPELINE_VAD_SHADOW_SAMPLE_RATE", value)
    with pytest.raises(ValidationError):
        SpeechSettings()


def test_a_switch_cannot_be_changed_after_it_was_read() -> None:
    config = ProviderConfig()
    with pytest.raises(ValidationError):
        config.prepare_flight_enabled = False


def test_a_value_that_is_no_boolean_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BATCH_PIPELINE_PREPARE_FLIGHT_ENABLED", "maybe")
    with pytest.raises(ValidationError):
        ProviderConfig()


@pytest.mark.parametrize("value", ["0", "33", "eight"])
def test_a_flight_holds_between_1_and_32_units(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("BATCH_PIPELINE_FLIGHT_UNITS", value)
    with pytest.raises(ValidationError):
        WorkerSettings()


def test_a_lease_that_would_never_lapse_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BATCH_PIPELINE_LEASE_SECONDS", "inf")
    with pytest.raises(ValidationError):
        QueueSettings()


def test_a_password_in_the_database_url_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BATCH_PIPELINE_DATABASE_URL", "postgresql+asyncpg://volery:hunter2@db/volery")
    assert "hunter2" not in repr(Settings())


@pytest.mark.parametrize(
    ("slip", "meant"),
    [
        ("BATCH_PIPELINE_PREPARE_FLIGHTS_ENABLED", "BATCH_PIPELINE_PREPARE_FLIGHT_ENABLED"),
        ("BATCH_PIPELINE_ASR_CUDA_GRAPH_ENABLED", "BATCH_PIPELINE_ASR_CUDA_GRAPHS_ENABLED"),
        ("BATCH_PIPELINE_LEASE_SECOND", "BATCH_PIPELINE_LEASE_SECONDS"),
        ("BATCH_PIPELINE_PREPARE_FLIGHT", "BATCH_PIPELINE_PREPARE_FLIGHT_ENABLED"),
        ("batch_pipeline_lanez", "BATCH_PIPELINE_LANES"),
    ],
)
def test_a_near_miss_stops_startup_and_names_what_was_meant(slip: str, meant: str) -> None:
    with pytest.raises(ConfigurationError, match=f"did you mean {meant}"):
        check_environment({slip: "1"})


def test_an_unknown_name_far_from_any_is_only_reported() -> None:
    assert check_environment({"BATCH_PIPELINE_TELEPORTER_COLOUR": "red", "PATH": "/bin"}) == (
        "BATCH_PIPELINE_TELEPORTER_COLOUR",
    )


@pytest.mark.parametrize("newer", ["EXPORT_FORMATS", "PREPARE_FLIGHT_UNITS", "VAD_THRESHOLD"])
def test_a_setting_of_a_newer_release_does_not_stop_an_older_one(newer: str) -> None:
    assert check_environment({f"BATCH_PIPELINE_{newer}": "1"}) == (f"BATCH_PIPELINE_{newer}",)


def test_a_name_that_the_chart_declares_is_no_slip_however_near_to_a_known_one() -> None:
    newer, slip = "BATCH_PIPELINE_LANES_2", "BATCH_PIPELINE_LANEZ"
    declared = {DECLARED: f"BATCH_PIPELINE_LANES {newer}"}
    assert check_environment({newer: "1", **declared}) == (newer,)
    with pytest.raises(ConfigurationError, match="LANEZ is not a setting"):
        check_environment({newer: "1", slip: "1", **declared})


def test_no_known_name_is_a_slip_of_another() -> None:
    bare = [name.removeprefix(PREFIX) for name in known_names()]
    assert [(one, other) for one in bare for other in bare if one != other and _is_slip(one, other)] == []


def test_every_known_name_passes_the_scan() -> None:
    assert check_environment(dict.fromkeys(known_names(), "")) == ()


def test_every_setting_is_described() -> None:
    assert [name for group in GROUPS for name, field in group.model_fields.items() if not field.description] == []


def test_an_engine_that_does_not_exist_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BATCH_PIPELINE_ASR_ENGINE", "kaldi")
    with pytest.raises(ValidationError):
        SpeechSettings()
