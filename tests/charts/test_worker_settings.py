"""What reaches the worker's container: every setting, exactly as the values say."""

from __future__ import annotations

import re
from typing import Any

import pytest

from chart_rendering import of_kind, plain_environment, worker_container
from chart_settings import CHART_DEFAULTS, chart_settings, value_name
from volery.settings import DECLARED, PREFIX, SWITCHES, Settings, check_environment, known_names

SECRET = f"{PREFIX}DATABASE_URL"
SOME_VOLUME = {"name": "some", "mountPath": "/some"}


def _other_than_default(schema: dict[str, Any]) -> Any:
    """A value that fits a setting's schema and is not its default."""
    schema = next((one for one in schema.get("anyOf", ()) if one.get("type") != "null"), schema) | {
        "default": schema.get("default")
    }
    if "pattern" in schema:
        return "0" * next(length for length in (40, 64) if re.match(schema["pattern"], "0" * length))
    if "enum" in schema:
        return next(one for one in reversed(schema["enum"]) if one != schema["default"])
    match schema["type"]:
        case "boolean":
            return not schema["default"]
        case "integer":
            return schema["default"] + 1
        case "number":
            return schema["default"] + 0.25
    return "/some/text"


def _settings_in(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Every setting as a worker with this environment reads it."""
    for name, value in environment.items():
        if name.startswith(PREFIX):
            monkeypatch.setenv(name, value)
    settings = Settings()
    return {name: value for group in vars(settings).values() for name, value in dict(group).items()}


@pytest.mark.parametrize("switch", SWITCHES, ids=lambda switch: switch.name)
@pytest.mark.parametrize(("value", "text"), [(True, "true"), (False, "false")])
def test_each_switch_reaches_the_container_as_exactly_its_value(switch: Any, value: bool, text: str) -> None:
    environment = plain_environment({"worker": {value_name(switch.setting): value}})
    assert environment[switch.environment] == text


@pytest.mark.parametrize("switch", SWITCHES, ids=lambda switch: switch.name)
def test_a_switch_that_is_changed_leaves_the_others_as_they_ship(switch: Any) -> None:
    environment = plain_environment({"worker": {value_name(switch.setting): not switch.default}})
    states = {one.name: environment[one.environment] == "true" for one in SWITCHES}
    assert states == {one.name: one.default != (one is switch) for one in SWITCHES}


def test_every_setting_can_be_set_and_is_read_as_it_was_set(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = {name: _other_than_default(schema) for name, _, schema in chart_settings()}
    wanted["artifacts_url"] = "file:///some/folder"
    values = {"worker": {value_name(name): value for name, value in wanted.items()}, "extraVolumeMounts": [SOME_VOLUME]}
    environment = plain_environment(values)
    assert {name for name in environment if name.startswith(PREFIX)} | {SECRET} == known_names()
    read = _settings_in(environment, monkeypatch)
    assert {
        name: read[name] if isinstance(value, float | int) else str(read[name]) for name, value in wanted.items()
    } == wanted


def test_the_defaults_of_the_chart_are_those_of_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    of_settings = _settings_in({}, monkeypatch)
    of_chart = _settings_in(plain_environment(), monkeypatch)
    assert {name for name, value in of_chart.items() if value != of_settings[name]} == CHART_DEFAULTS.keys()


def test_the_container_has_no_variable_that_startup_would_complain_about() -> None:
    assert check_environment({one["name"]: "" for one in worker_container()["env"]}) == ()


def test_an_older_image_takes_no_setting_of_the_chart_for_a_slip() -> None:
    audited = {"referee": {"enabled": True}, "worker": {"refereeSampleRate": 0.5}}
    pods = [
        of_kind("Deployment", audited, component)["spec"]["template"]["spec"] for component in ("worker", "referee")
    ]
    for container in (one for pod in pods for one in (*pod.get("initContainers", ()), *pod["containers"])):
        names = {one["name"] for one in container["env"]}
        [declared] = [one["value"].split() for one in container["env"] if one["name"] == DECLARED]
        assert {name for name in names if name.startswith(PREFIX)} <= set(declared)
        assert not DECLARED.startswith(PREFIX)


def test_no_variable_is_set_twice() -> None:
    names = [one["name"] for one in worker_container({"hubToken": {"secretName": "hub"}})["env"]]
    assert sorted(names) == sorted(set(names))


def test_secrets_are_only_referred_to() -> None:
    env = {one["name"]: one for one in worker_container({"hubToken": {"secretName": "hub"}})["env"]}
    assert env[SECRET]["valueFrom"] == {"secretKeyRef": {"name": "volery-database", "key": "url"}}
    assert env["HF_TOKEN"]["valueFrom"] == {"secretKeyRef": {"name": "hub", "key": "token"}}


def test_large_whole_numbers_are_written_without_an_exponent() -> None:
    environment = plain_environment({"worker": {"audioMaxBytes": 12_345_678_901, "audioMaxSeconds": 1_234_567}})
    assert environment["BATCH_PIPELINE_AUDIO_MAX_BYTES"] == "12345678901"
    assert environment["BATCH_PIPELINE_AUDIO_MAX_SECONDS"] == "1234567"


def _checksum(values: dict[str, Any]) -> str:
    return str(of_kind("Deployment", values)["spec"]["template"]["metadata"]["annotations"]["checksum/settings"])


@pytest.mark.parametrize("switch", SWITCHES, ids=lambda switch: switch.name)
def test_a_changed_switch_rolls_the_pods(switch: Any) -> None:
    assert _checksum({"worker": {value_name(switch.setting): not switch.default}}) != _checksum({})


def test_pods_stay_where_nothing_of_theirs_changed() -> None:
    changed = {"podMonitor": {"interval": "11s"}, "replicas": 3}
    assert of_kind("Deployment", changed)["spec"]["template"] == of_kind("Deployment")["spec"]["template"]
