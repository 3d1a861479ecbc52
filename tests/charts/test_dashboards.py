"""The dashboards: every query parses and names series that exist, and each says what it is for."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import promql_parser
import pytest

from chart_rendering import CHART, manifests
from dashboards.description import Dashboard, Figure, Graph, Query, Table
from dashboards.fleet import FLEET_DASHBOARD
from dashboards.switches import of_fleet, switches_dashboard
from dashboards.worker import WORKER_DASHBOARD
from flag_registry import read_register
from metric_names import names_in, series_of_volery

FILES = sorted((CHART / "dashboards").glob("*.json"))
DESCRIBED = [FLEET_DASHBOARD, WORKER_DASHBOARD, switches_dashboard()]
CHOSEN = {"$namespace": "speech", "$job": "volery", "$pod": "w-1", "$before": "1d"}


def _as_chosen(query: str) -> str:
    for variable, value in CHOSEN.items():
        query = query.replace(variable, value)
    assert "$" not in query
    return query


def _panels(path: Path) -> list[dict[str, Any]]:
    return [one for one in json.loads(path.read_text(encoding="utf-8"))["panels"] if one["type"] != "row"]


def _queries(path: Path) -> list[str]:
    return [_as_chosen(target["expr"]) for panel in _panels(path) for target in panel["targets"]]


def test_there_is_a_file_for_each_described_dashboard() -> None:
    assert {path.stem for path in FILES} == {one.name for one in DESCRIBED}


def test_the_files_are_made_of_the_descriptions() -> None:
    pytest.importorskip("grafana_foundation_sdk", reason="grafana-foundation-sdk is not installed")
    from dashboards.grafana import as_json

    for described in DESCRIBED:
        path = CHART / "dashboards" / f"{described.name}.json"
        assert path.read_text(encoding="utf-8") == as_json(described), "run scripts/generate_dashboards.py"


def _described_queries(described: Dashboard) -> list[Query]:
    queries: list[Query] = []
    for row in described.rows:
        for panel in row.panels:
            match panel:
                case Graph():
                    queries += panel.queries
                case Figure() | Table():
                    queries.append(panel.query)
    return queries


@pytest.mark.parametrize("described", DESCRIBED, ids=lambda one: one.name)
def test_the_file_asks_what_is_described(described: Dashboard) -> None:
    asked = _queries(CHART / "dashboards" / f"{described.name}.json")
    assert asked == [_as_chosen(query.expr) for query in _described_queries(described)]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_query_parses_and_names_series_that_exist(path: Path) -> None:
    for query in _queries(path):
        assert names_in(query), query
        assert names_in(query) <= series_of_volery(), query


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_query_is_of_the_chosen_fleet_alone(path: Path) -> None:
    for query in _queries(path):
        parsed = str(promql_parser.parse(query))
        selectors = parsed.count("batch_pipeline_")
        assert parsed.count('namespace="speech"') == parsed.count('job="volery"') == selectors, query


@pytest.mark.parametrize("described", DESCRIBED, ids=lambda one: one.name)
def test_a_fleet_without_workers_can_be_chosen(described: Dashboard) -> None:
    """Whose exporter alone reports: that is when somebody looks."""
    for variable in described.variables:
        if variable.name in ("namespace", "job"):
            [pattern] = re.findall(r'__name__=~"([^"]+)"', variable.query)
            chosen_by = {name for name in series_of_volery() if re.fullmatch(pattern, name)}
            assert {"batch_pipeline_store_reachable", "batch_pipeline_gpu_busy_seconds_total"} == chosen_by


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_panel_says_what_it_shows(path: Path) -> None:
    for panel in _panels(path):
        assert panel["title"]
        assert panel["description"].endswith(".")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_panel_has_a_number_of_its_own_and_none_covers_another(path: Path) -> None:
    panels = json.loads(path.read_text(encoding="utf-8"))["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    covered: set[tuple[int, int]] = set()
    for place in (panel["gridPos"] for panel in panels):
        cells = {
            (place.get("x", 0) + column, place.get("y", 0) + line)
            for column in range(place["w"])
            for line in range(place["h"])
        }
        assert covered.isdisjoint(cells)
        assert max(column for column, _ in cells) < 24
        covered |= cells


def test_each_switch_is_shown_by_its_readback_series_now_and_before() -> None:
    asked = [query.expr for query in _described_queries(switches_dashboard())]
    for flag in read_register().flags.values():
        for readback in flag.readback:
            assert of_fleet(readback.query) in asked
            assert of_fleet(readback.query, " offset $before") in asked


def test_a_readback_query_is_asked_of_one_fleet_at_another_time() -> None:
    query = (
        'rate(batch_pipeline_stage_seconds_sum{stage="asr"}[30m]) / increase(batch_pipeline_graph_captures_total[30m])'
    )
    assert of_fleet(query, " offset 1d") == (
        'rate(batch_pipeline_stage_seconds_sum{namespace="$namespace",job="$job",stage="asr"}[30m] offset 1d)'
        ' / increase(batch_pipeline_graph_captures_total{namespace="$namespace",job="$job"}[30m] offset 1d)'
    )


def test_the_chart_hands_the_dashboards_to_grafana_as_they_are() -> None:
    maps = [one for one in manifests({"dashboards": {"enabled": True}}) if one["kind"] == "ConfigMap"]
    assert all(one["metadata"]["labels"]["grafana_dashboard"] == "1" for one in maps)
    found = {name: json.loads(text) for one in maps for name, text in one["data"].items()}
    assert found == {f"volery-{path.name}": json.loads(path.read_text(encoding="utf-8")) for path in FILES}
