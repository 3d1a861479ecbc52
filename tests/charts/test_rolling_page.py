"""docs/operating: what its pages say of the chart and of the commands is so."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from chart_rendering import loaded, manifests, of_kind, render
from metric_names import names_in, series_of_volery

OPERATING = Path(__file__).resolve().parents[2] / "docs" / "operating"
ROLLING = OPERATING / "rolling.md"
PAGES = [ROLLING, *sorted((OPERATING / "alerts").glob("*.md"))]


def _blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", ROLLING.read_text(encoding="utf-8"), re.DOTALL)


def test_the_values_of_the_example_install_a_fleet() -> None:
    [values] = [yaml.safe_load(block) for block in _blocks("yaml")]
    kinds = {one["kind"] for one in manifests(values)}
    assert {"PodMonitor", "PrometheusRule"} <= kinds
    assert of_kind("Deployment", values)["spec"]["replicas"] == values["replicas"]


def test_the_time_that_the_page_promises_is_the_one_that_the_chart_computes() -> None:
    notes = render({"replicas": 8})["volery-worker/templates/NOTES.txt"]
    page = " ".join(ROLLING.read_text(encoding="utf-8").split())
    [seconds] = re.findall(r"in force in every pod after at most (\d+) s", notes)
    assert f"by default four, for a fleet of eight at most {int(seconds) // 60} minutes" in page
    assert f"gone within {of_kind('Deployment')['spec']['template']['spec']['terminationGracePeriodSeconds']} s" in page


def test_queries_of_the_page_are_of_series_that_exist() -> None:
    for query in _blocks("promql"):
        assert names_in(query) <= series_of_volery()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_values_that_a_page_names_exist(page: Path) -> None:
    top = "|".join(
        ("worker", "gpu", "rollout", "probes", "autoscaling", "modelCache", "prometheusRule", "image", "exporter")
    )
    for name in re.findall(rf"\b((?:{top})\.[a-zA-Z]+)\b(?!\.)", page.read_text(encoding="utf-8")):
        group, key = name.split(".")
        values: dict[str, Any] = loaded().values[group]
        assert key in values, name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
        assert (page.parent / link).exists(), link
