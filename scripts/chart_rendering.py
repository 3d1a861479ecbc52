"""The chart as the real Helm engine renders it."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import helm_python as helm
import yaml

CHART = Path(__file__).resolve().parent.parent / "charts" / "volery-worker"
RELEASE = "volery"
NAMESPACE = "speech"

Values = dict[str, Any]
Manifest = dict[str, Any]


@cache
def loaded() -> helm.Chart:
    """The chart; it cannot change."""
    return helm.Chart.load(CHART)


def least_values() -> Values:
    """What an installation has to say for itself, as an example."""
    return dict(yaml.safe_load((CHART / "ci" / "least-values.yaml").read_text(encoding="utf-8")))


def merged(values: Values, more: Values) -> Values:
    """Values over values, as Helm lays a second file over the first."""
    both = {**values, **more}
    for key in values.keys() & more.keys():
        if isinstance(values[key], dict) and isinstance(more[key], dict):
            both[key] = merged(values[key], more[key])
    return both


def render(values: Values | None = None) -> dict[str, str]:
    """Every template's text, with the least values and these.

    Raises:
        helm_python.HelmError: the values do not fit the schema, or a template refuses them.
    """
    return _rendered(json.dumps(merged(least_values(), values or {})))


@cache
def _rendered(values: str) -> dict[str, str]:
    chart, chosen = loaded(), json.loads(values)
    chart.validate_schema(chosen)
    return chart.render(chosen, name=RELEASE, namespace=NAMESPACE)


def manifests(values: Values | None = None) -> list[Manifest]:
    """Every manifest."""
    texts = [text for name, text in sorted(render(values).items()) if name.endswith(".yaml")]
    return [document for text in texts for document in yaml.load_all(text, yaml.CSafeLoader) if document]


def of_kind(kind: str, values: Values | None = None, component: str = "worker") -> Manifest:
    """The one manifest of a kind; of the Deployments, a component's."""
    found = [one for one in manifests(values) if one["kind"] == kind]
    if kind == "Deployment":
        found = [one for one in found if one["metadata"]["labels"]["app.kubernetes.io/component"] == component]
    [manifest] = found
    return manifest


def worker_container(values: Values | None = None) -> Manifest:
    """The worker's container."""
    [container] = of_kind("Deployment", values)["spec"]["template"]["spec"]["containers"]
    return dict(container)


def plain_environment(values: Values | None = None) -> dict[str, str]:
    """The worker's variables that are no secrets, by name."""
    return {one["name"]: one["value"] for one in worker_container(values)["env"] if "value" in one}
