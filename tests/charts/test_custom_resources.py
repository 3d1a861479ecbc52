"""Custom resources: valid by the schemas that their operators publish."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from chart_rendering import Values, of_kind

SCHEMAS = Path(__file__).parent / "schemas"
ENABLED: Values = {
    "podMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}},
    "autoscaling": {"enabled": True},
}
KINDS = ["PodMonitor", "PrometheusRule", "ScaledObject", "TriggerAuthentication"]


def _validate(manifest: dict[str, Any]) -> None:
    schema = json.loads((SCHEMAS / f"{manifest['kind']}.json").read_text(encoding="utf-8"))
    jsonschema.validate(manifest, schema)


@pytest.mark.parametrize("kind", KINDS)
def test_a_custom_resource_is_valid_by_its_published_schema(kind: str) -> None:
    _validate(of_kind(kind, ENABLED))


@pytest.mark.parametrize("kind", KINDS)
def test_the_schemas_are_strict(kind: str) -> None:
    manifest = copy.deepcopy(of_kind(kind, ENABLED))
    manifest["spec"]["unheardOf"] = 1
    with pytest.raises(jsonschema.ValidationError, match="unheardOf"):
        _validate(manifest)


def test_the_autoscaler_is_told_its_target_as_text() -> None:
    scaled = copy.deepcopy(of_kind("ScaledObject", ENABLED))
    scaled["spec"]["triggers"][0]["metadata"]["targetQueryValue"] = 64
    with pytest.raises(jsonschema.ValidationError):
        _validate(scaled)
