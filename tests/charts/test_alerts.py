"""The alerts, rendered with the chart and judged by Prometheus' own tool."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from chart_rendering import Values, merged, of_kind
from chart_settings import value_name
from metric_names import names_in, series_of_volery
from volery import metrics
from volery.cli.exits import ExitCode
from volery.referee.cases import RefereeReason
from volery.referee.devices import Choice, Why
from volery.settings import SWITCHES, RefereeSettings

ROOT = Path(__file__).resolve().parents[2]
RUNBOOKS = ROOT / "docs" / "operating" / "alerts"
CASES = Path(__file__).parent / "alert_cases.yaml"
ENABLED: Values = {"prometheusRule": {"enabled": True}}
COUNTED_ELSEWHERE: Values = {"exporter": {"enabled": False}}
"""A further release on the job store of one that has an exporter."""
ANOTHER_EXPORTER = (r"job=\"volery\",pod=\"exporter\"", r"job=\"first\",pod=\"exporter\"")
OF_KUBE_STATE_METRICS = {
    "kube_deployment_spec_replicas",
    "kube_deployment_status_replicas_available",
    "kube_pod_container_status_last_terminated_exitcode",
    "kube_pod_container_status_restarts_total",
}


def _groups(values: Values | None = None) -> Any:
    return of_kind("PrometheusRule", merged(ENABLED, values or {}))["spec"]["groups"]


def _rules(values: Values | None = None) -> list[dict[str, Any]]:
    return [rule for group in _groups(values) for rule in group["rules"]]


def _cases() -> list[dict[str, Any]]:
    return list(yaml.safe_load(CASES.read_text(encoding="utf-8"))["tests"])


@pytest.fixture(scope="module")
def promtool() -> str:
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("promtool is not installed (Debian's package prometheus has it)")
    return found


def _promtool(promtool: str, folder: Path, *words: str) -> None:
    done = subprocess.run([promtool, *words], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def _run(promtool: str, folder: Path, values: Values, tests: list[dict[str, Any]]) -> None:
    """Let promtool judge cases; JSON is YAML, too."""
    cases = {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": tests}
    (folder / "rules.yaml").write_text(json.dumps({"groups": _groups(values)}), encoding="utf-8")
    (folder / "cases.yaml").write_text(json.dumps(cases), encoding="utf-8")
    _promtool(promtool, folder, "test", "rules", "cases.yaml")


@pytest.mark.parametrize("values", [{}, COUNTED_ELSEWHERE], ids=["default", "no-exporter"])
def test_prometheus_takes_the_rules(values: Values, promtool: str, tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(json.dumps({"groups": _groups(values)}), encoding="utf-8")
    _promtool(promtool, tmp_path, "check", "rules", "rules.yaml")


@pytest.mark.parametrize("case", _cases(), ids=lambda case: case["name"].replace(" ", "-"))
def test_alerts_fire_when_they_should_and_only_then(case: dict[str, Any], promtool: str, tmp_path: Path) -> None:
    _run(promtool, tmp_path, {}, [case])


def test_every_alert_has_a_case_in_which_it_fires_and_one_in_which_it_never_does() -> None:
    fires, silent = set(), set()
    for case in _cases():
        checks = case["alert_rule_test"]
        (fires if any(one.get("exp_alerts") for one in checks) else silent).update(one["alertname"] for one in checks)
    assert fires == silent == {rule["alert"] for rule in _rules()}


@pytest.mark.parametrize("switch", SWITCHES, ids=lambda switch: switch.name)
def test_a_switch_that_is_on_although_it_was_turned_off_raises_an_alert(
    switch: Any, promtool: str, tmp_path: Path
) -> None:
    labels = f'namespace="speech",job="volery",pod="w-1",switch="{switch.name}"'
    expected = {
        "exp_labels": {"severity": "critical", "pod": "w-1", "switch": switch.name, "state": "on"},
        "exp_annotations": {
            "summary": f"The switch {switch.name} is on in w-1, and its Helm value is false.",
            "runbook": "docs/operating/alerts/switch-differs.md",
        },
    }
    case = {
        "interval": "1m",
        "input_series": [{"series": f'batch_pipeline_switch_state{{{labels},state="on"}}', "values": "1x60"}],
        "alert_rule_test": [{"eval_time": "30m", "alertname": "VolerySwitchDiffers", "exp_alerts": [expected]}],
    }
    _run(promtool, tmp_path, {"worker": {value_name(switch.setting): False}}, [case])


@pytest.mark.parametrize(
    "name",
    [
        "one worker's GPU is idle while units wait",
        "GPUs are idle and the queue runs empty now and then",
        "units are ready and nothing ends",
        "one of two workers gets on",
        "workers are wanted and none becomes ready",
    ],
)
def test_a_fleet_whose_queue_another_counts_has_its_alerts_from_that_count(
    name: str, promtool: str, tmp_path: Path
) -> None:
    [case] = [case for case in _cases() if case["name"] == name]
    elsewhere = json.loads(json.dumps(case).replace(*ANOTHER_EXPORTER))
    assert elsewhere != case
    _run(promtool, tmp_path, COUNTED_ELSEWHERE, [elsewhere])


def test_a_fleet_whose_queue_another_counts_leaves_the_queues_alerts_to_that_one() -> None:
    left_out = {rule["alert"] for rule in _rules()} - {rule["alert"] for rule in _rules(COUNTED_ELSEWHERE)}
    assert left_out == {"VoleryQueueAge", "VoleryDeadUnits"}


def test_a_fleet_whose_queue_another_counts_misses_no_exporter_and_may_be_scaled_away(
    promtool: str, tmp_path: Path
) -> None:
    ready = 'batch_pipeline_ready_units{namespace="speech",job="first",pod="exporter"}'
    case = {
        "interval": "1m",
        "input_series": [{"series": ready, "values": "12x60"}],
        "alert_rule_test": [{"eval_time": "50m", "alertname": "VoleryNoProgress"}],
    }
    _run(promtool, tmp_path, COUNTED_ELSEWHERE, [case])


def test_every_series_of_an_alert_exists() -> None:
    for rule in _rules():
        assert names_in(rule["expr"]) <= series_of_volery() | OF_KUBE_STATE_METRICS, rule["alert"]


def test_every_switch_has_its_alert() -> None:
    watched = {rule["labels"]["switch"] for rule in _rules() if rule["alert"] == "VolerySwitchDiffers"}
    assert watched == {switch.name for switch in SWITCHES}


def test_the_exit_code_of_a_quarantine_is_the_one_that_is_watched() -> None:
    [rule] = [rule for rule in _rules() if rule["alert"] == "VoleryQuarantineExit"]
    assert f"}}) == {int(ExitCode.QUARANTINED)}\n" in rule["expr"]


def test_every_alert_leads_to_a_page_and_every_page_is_an_alerts() -> None:
    pages = {Path(rule["annotations"]["runbook"]).name for rule in _rules()}
    assert pages == {page.name for page in RUNBOOKS.glob("*.md")}


def test_pages_say_which_alerts_lead_to_them() -> None:
    for rule in _rules():
        page = (ROOT / rule["annotations"]["runbook"]).read_text(encoding="utf-8")
        assert rule["alert"] in page.splitlines()[0]


def test_the_page_of_quarantines_knows_every_reason_for_one() -> None:
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "backend" / "volery").rglob("*.py")]
    reasons = {
        reason
        for text in sources
        for reason in re.findall(r'^(?:QUARANTINE_REASON|ACCELERATOR_ERROR) = "(\w+)"', text, re.M)
    }
    page = (RUNBOOKS / "quarantine.md").read_text(encoding="utf-8")
    assert len(reasons) >= 3
    assert {reason for reason in reasons if f"`{reason}`" not in page} == set()


def test_the_pages_of_the_referee_know_every_reason_of_theirs() -> None:
    misses = (RUNBOOKS / "referee-misses.md").read_text(encoding="utf-8")
    outcomes = {"dropped", *RefereeReason} - {RefereeReason.CLOSED}
    assert {outcome for outcome in outcomes if f"| `{outcome}` |" not in misses} == set()
    falls = {why for why in Why if Choice("cpu", why).fell}
    on_cpu = (RUNBOOKS / "referee-on-cpu.md").read_text(encoding="utf-8")
    assert {why for why in falls if f"| `{why}` |" not in on_cpu} == set()
    [rule] = [rule for rule in _rules() if rule["alert"] == "VoleryRefereeOnCpu"]
    assert set(re.findall(r'why=~"([^"]*)"', rule["expr"])[0].split("|")) == falls


def test_the_share_in_dispute_is_counted_from_an_edge_of_the_histogram() -> None:
    [rule] = [rule for rule in _rules() if rule["alert"] == "VoleryRefereeDisagreement"]
    [edge] = re.findall(r'le="([^"]*)"', rule["expr"])
    metrics.REFEREE_DISAGREEMENT.labels("en")
    edges = {
        one.labels["le"]
        for all_ in metrics.REFEREE_DISAGREEMENT.collect()
        for one in all_.samples
        if one.labels.get("le")
    }
    assert edge in edges
    assert float(edge) == RefereeSettings().referee_threshold


def test_alerts_link_to_where_the_pages_are_published() -> None:
    for rule in _rules({"prometheusRule": {"runbookUrl": "https://docs.example.com/alerts"}}):
        assert rule["annotations"]["runbook_url"].startswith("https://docs.example.com/alerts/")
