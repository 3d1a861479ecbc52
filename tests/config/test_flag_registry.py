"""The register of switches: whatever disagrees is said, and fails the check."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import promql_parser
import pytest
from pydantic import ValidationError

from chart_settings import value_name
from flag_registry import Readback, Register, Registered, disagreements, helm_value, read_register, registry_page
from metric_names import names_in, series_of_volery
from volery.settings import PREFIX, SWITCHES, Switch, known_names


@pytest.fixture
def register() -> Register:
    return read_register()


def _with_flag(register: Register, name: str, **changes: Any) -> Register:
    flags = register.flags | {name: register.flags[name].model_copy(update=changes)}
    return replace(register, flags=flags)


NEW = Switch("new_way_enabled", True, "behaviour", "the old way")


def test_settings_config_and_chart_agree(register: Register) -> None:
    assert disagreements(register) == []


def test_a_switch_that_is_added_without_raising_the_budget_is_refused(register: Register) -> None:
    assert any("flag_budget.json has 4" in one for one in disagreements(register, (*SWITCHES, NEW)))


def test_a_switch_that_is_deleted_gives_its_place_in_the_budget_back(register: Register) -> None:
    assert any("there are 3 switches" in one for one in disagreements(register, SWITCHES[1:]))


def test_a_switch_that_nobody_registered_is_named(register: Register) -> None:
    found = disagreements(register, (*SWITCHES, NEW))
    assert "the switch new_way_enabled is not in config/feature-flags.yaml" in found


def test_a_switch_that_the_chart_does_not_set_is_named(monkeypatch: pytest.MonkeyPatch, register: Register) -> None:
    switch = SWITCHES[0]
    environment = {"BATCH_PIPELINE_LANES": "2"}
    monkeypatch.setattr("flag_registry.plain_environment", lambda _=None: environment)
    found = disagreements(register)
    assert f"the chart renders {switch.environment} as None where {helm_value(switch)} is False" in found


def test_a_switch_that_the_chart_cannot_turn_off_is_named(monkeypatch: pytest.MonkeyPatch, register: Register) -> None:
    environment = {switch.environment: "true" for switch in SWITCHES}
    monkeypatch.setattr("flag_registry.plain_environment", lambda _=None: environment)
    found = disagreements(register)
    assert [one for one in found if "as 'true'" in one] == [
        f"the chart renders {switch.environment} as 'true' where {helm_value(switch)} is False" for switch in SWITCHES
    ]


def test_a_registered_switch_that_no_setting_knows_is_named(register: Register) -> None:
    flags = register.flags | {"gone_enabled": register.flags["prepare_flight_enabled"]}
    assert "the switch gone_enabled is not in ProviderConfig" in disagreements(replace(register, flags=flags))


def test_a_missing_value_must_fail_the_way_the_default_does(register: Register) -> None:
    [found] = disagreements(_with_flag(register, "asr_cuda_graphs_enabled", missing="closed"))
    assert "asr_cuda_graphs_enabled fails closed" in found
    [found] = disagreements(_with_flag(register, "vad_recovery_enabled", missing="open"))
    assert "vad_recovery_enabled fails open" in found


def _receipt(**changes: Any) -> dict[str, Any]:
    arm = {"ran": {"models": {"simulated": False}}}
    return {"machine": {"accelerator": "NVIDIA L4"}, "arms": [arm], **changes}


SIMULATED = _receipt(arms=[{"ran": {"models": {"simulated": True}}}])
OF_A_CPU = _receipt(machine={"accelerator": None})
CHECKED = {"machine": {"device": "cuda:0"}, "cuda_graphs": "passed"}


@pytest.mark.parametrize(
    ("evidence", "said"),
    [
        (None, "is no file of this repository"),
        ("# Volery", "is no receipt"),
        ({"flags": 3}, "is no receipt"),
        (SIMULATED, "is of a simulated device"),
        (OF_A_CPU, "was made without an accelerator"),
        ({**CHECKED, "machine": {"device": "cpu"}}, "was made without an accelerator"),
        ({**CHECKED, "cuda_graphs": "failed"}, "does not pass"),
        (_receipt(), None),
        (CHECKED, None),
    ],
    ids=["missing", "prose", "other", "simulated", "cpu", "check-on-cpu", "failed", "bench", "check"],
)
def test_evidence_for_what_is_on_is_a_receipt_from_a_gpu_or_none_yet(
    register: Register, tmp_path: Path, evidence: Any, said: str | None
) -> None:
    path = tmp_path / "receipt.json"
    if evidence is not None:
        path.write_text(evidence if isinstance(evidence, str) else json.dumps(evidence), encoding="utf-8")
    found = disagreements(_with_flag(register, "asr_cuda_graphs_enabled", evidence=str(path)))
    assert len(found) == (said is not None)
    assert (said or "") in "".join(found)


def test_every_setting_has_a_class(register: Register) -> None:
    assert register.classes.keys() == known_names()
    classes = {name: kind for name, kind in register.classes.items() if name != f"{PREFIX}LANES"}
    [found] = disagreements(replace(register, classes=classes))
    assert found.startswith("BATCH_PIPELINE_LANES has no class")


def test_a_class_of_a_setting_that_is_gone_is_named(register: Register) -> None:
    [found] = disagreements(replace(register, classes={**register.classes, f"{PREFIX}GONE": "tuning"}))
    assert "BATCH_PIPELINE_GONE is no setting" in found


@pytest.mark.parametrize(
    ("name", "kind", "said"),
    [
        ("LANES", "switch", "is no switch"),
        ("ASR_CUDA_GRAPHS_ENABLED", "tuning", "is a switch"),
        ("DATABASE_URL", "wiring", "is a secret"),
        ("HTTP_HOST", "secret", "is no secret"),
    ],
)
def test_what_is_a_switch_or_a_secret_is_decided_by_the_settings(
    register: Register, name: str, kind: Any, said: str
) -> None:
    [found] = disagreements(replace(register, classes={**register.classes, f"{PREFIX}{name}": kind}))
    assert said in found


def test_a_registration_says_everything_and_nothing_else() -> None:
    whole: dict[str, Any] = {
        "owner": "somebody",
        "missing": "open",
        "readback": [{"query": "up", "off_shows": "falls"}],
        "evidence": "none yet",
        "delete_when": "never",
    }
    Registered.model_validate(whole)
    for key in whole:
        with pytest.raises(ValidationError):
            Registered.model_validate({name: value for name, value in whole.items() if name != key})
    with pytest.raises(ValidationError):
        Registered.model_validate({**whole, "default": True})
    with pytest.raises(ValidationError):
        Registered.model_validate({**whole, "missing": "ajar"})


def _readbacks(register: Register) -> list[Readback]:
    return [one for flag in register.flags.values() for one in flag.readback]


def test_every_readback_is_a_query_of_series_that_exist(register: Register) -> None:
    for one in _readbacks(register):
        promql_parser.parse(one.query)
        assert names_in(one.query)
        assert names_in(one.query) <= series_of_volery()


def test_the_page_shows_each_switch_as_the_chart_declares_it(register: Register) -> None:
    page = registry_page(register)
    for switch in SWITCHES:
        assert f"`worker.{value_name(switch.setting)}`" in page
        assert switch.off_restores in page
        by_default = "true" if switch.default else "false"
        assert f'`"true"` and `"false"`; by default `"{by_default}"`' in _section_of(page, switch)


def _section_of(page: str, switch: Switch) -> str:
    return page.partition(f"## {switch.name}\n")[2].partition("\n## ")[0]
