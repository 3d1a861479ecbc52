"""What `volery flags` says of the switches."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, get_args

import pytest
from command_line import Cli

from volery import metrics
from volery.settings import SWITCHES, ProviderConfig, Switch, SwitchClass
from volery.worker.health import Health
from volery.worker.probes import ProbeServer

LIVE = {
    "prepare_flight": "off",
    "vad_segmentation_reuse": "on",
    "asr_cuda_graphs": "inapplicable",
    "vad_recovery": "off",
}

BY_NAME = pytest.mark.parametrize("switch", SWITCHES, ids=lambda switch: switch.name)


def flags(cli: Cli, *arguments: str, code: int = 0) -> dict[str, dict[str, Any]]:
    result = cli("flags", "--json", *arguments)
    assert result.exit_code == code, result.stderr
    return {one["switch"]: one for one in json.loads(result.stdout)["switches"]}


@pytest.fixture
def worker_url() -> Iterator[str]:
    """The real metrics port, whose worker reports graphs as inapplicable and preparation as off."""
    metrics.SWITCH_STATE.clear()
    for name, state in LIVE.items():
        for other in ("on", "off", "inapplicable"):
            metrics.SWITCH_STATE.labels(name, other).set(float(other == state))
    probes = ProbeServer(Health(stall_seconds=60.0), "127.0.0.1", 0)
    yield f"http://127.0.0.1:{probes.port}/metrics"
    probes.close()
    metrics.SWITCH_STATE.clear()


@BY_NAME
def test_every_switch_says_its_class_and_what_off_restores(switch: Switch) -> None:
    assert switch.kind in get_args(SwitchClass)
    assert switch.off_restores
    assert switch.off_restores in (ProviderConfig.model_fields[switch.setting].description or "")


@BY_NAME
@pytest.mark.parametrize("value", [True, False])
def test_a_value_from_the_environment_is_shown_with_its_source(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, switch: Switch, value: bool
) -> None:
    monkeypatch.setenv(switch.environment, str(value).lower())
    shown = flags(cli)
    assert list(shown) == [one.name for one in SWITCHES]
    assert shown.pop(switch.name) == {
        "switch": switch.name,
        "setting": switch.setting,
        "environment": switch.environment,
        "default": switch.default,
        "value": value,
        "source": "environment",
        "class": switch.kind,
        "off_restores": switch.off_restores,
    }
    assert {(one["value"] == one["default"], one["source"]) for one in shown.values()} == {(True, "default")}


def test_the_table_has_every_name_and_what_off_restores(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    said = cli("flags").stdout
    for switch in SWITCHES:
        assert switch.setting in said
        assert switch.environment in said
        assert switch.off_restores in said


def test_a_value_that_makes_no_sense_is_named(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BATCH_PIPELINE_PREPARE_FLIGHT_ENABLED", "perhaps")
    result = cli("flags")
    assert result.exit_code == 3
    assert "BATCH_PIPELINE_PREPARE_FLIGHT_ENABLED" in result.stderr


def test_a_running_worker_says_what_its_switches_are(cli: Cli, worker_url: str) -> None:
    shown = flags(cli, "--url", worker_url, code=8)
    assert {name: one["live"] for name, one in shown.items()} == LIVE


def test_a_worker_that_does_otherwise_than_is_asked_for_is_pointed_out(cli: Cli, worker_url: str) -> None:
    result = cli("flags", "--url", worker_url)
    assert result.exit_code == 8
    assert result.stderr == "prepare_flight is off in the worker, but this environment asks for on\n"


def test_a_worker_that_does_what_is_asked_for_is_not(
    cli: Cli, worker_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BATCH_PIPELINE_PREPARE_FLIGHT_ENABLED", "false")
    result = cli("flags", "--url", worker_url)
    assert (result.exit_code, result.stderr) == (0, "")


def test_a_switch_that_a_worker_does_not_report_is_pointed_out(cli: Cli, worker_url: str) -> None:
    metrics.SWITCH_STATE.remove("vad_segmentation_reuse", "on")
    result = cli("flags", "--url", worker_url)
    assert result.exit_code == 8
    assert "vad_segmentation_reuse is not reported in the worker" in result.stderr


def test_metrics_without_any_switch_are_no_workers(cli: Cli, worker_url: str) -> None:
    metrics.SWITCH_STATE.clear()
    result = cli("flags", "--url", worker_url)
    assert (result.exit_code, result.stdout) == (3, "")
    assert "no switch is reported" in result.stderr


def test_a_worker_that_does_not_answer_is_an_error(cli: Cli, worker_url: str) -> None:
    result = cli("flags", "--url", worker_url.replace("/metrics", "/nowhere"))
    assert (result.exit_code, result.stdout) == (3, "")
    assert "/nowhere" in result.stderr
    assert cli("flags", "--url", "pod:9090").exit_code == 2


def test_it_loads_no_model_library() -> None:
    code = (
        "import sys; from typer.testing import CliRunner; from volery.cli import app\n"
        "assert CliRunner().invoke(app, ['flags']).exit_code == 0\n"
        "print(sorted({'torch', 'nemo', 'pyannote', 'numpy', 'volery.app', 'volery.worker'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"
