"""The chart's `worker` values, made from the settings: every one but the secrets, by one rule of naming."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from volery.settings import GROUPS

CHART_DEFAULTS: dict[str, Any] = {"device": "cuda", "artifacts_url": ""}
"""Where the chart knows better: a pod without its GPU must not start, and results cannot stay in a pod."""

_CHART_BOUNDS: dict[str, Any] = {
    "artifacts_url": {"pattern": "^(file:///.+|gs://[a-z0-9][a-z0-9._-]{1,220}[a-z0-9](/.*)?)?$"},
    # Probes and Prometheus ask from outside of the pod,
    "http_host": {"not": {"pattern": "^(127\\.|localhost$|::1$|$)"}},
    # at a port that they know; below 1024 it would need a right that a worker does not have.
    "http_port": {"minimum": 1024},
}
"""Where the chart must know more than the settings do."""

_MARK = "# Settings of the worker, made from settings.py by scripts/generate_config.py; do not edit.\n"
_WIDTH = 118


def value_name(setting: str) -> str:
    """The value of a setting: some_name is worker.someName."""
    head, *rest = setting.split("_")
    return head + "".join(word.capitalize() for word in rest)


def chart_settings() -> Iterator[tuple[str, FieldInfo, dict[str, Any]]]:
    """Every setting that the chart has a value for: its name, its field and its JSON schema."""
    for group in GROUPS:
        schemas = group.model_json_schema()["properties"]
        for name, field in group.model_fields.items():
            if field.annotation is not SecretStr:
                yield name, field, schemas[name]


def default_of(setting: str, field: FieldInfo) -> Any:
    """What values.yaml says of a setting."""
    value = CHART_DEFAULTS[setting] if setting in CHART_DEFAULTS else field.get_default()
    return str(value) if isinstance(value, Path) else value


def with_worker_values(values: str) -> str:
    """values.yaml with its `worker` block made anew."""
    head = values.partition(_MARK)[0]
    return f"{head}{_MARK}worker:\n" + "".join(_entry(name, field) for name, field, _ in chart_settings())


def _entry(name: str, field: FieldInfo) -> str:
    comment = textwrap.fill(field.description or "", _WIDTH, initial_indent="  # ", subsequent_indent="  # ")
    value = default_of(name, field)
    short = int(value) if isinstance(value, float) and value.is_integer() else value
    return f"{comment}\n  {value_name(name)}: {json.dumps(short)}\n"


def with_worker_schema(schema: str) -> str:
    """values.schema.json with its `worker` part made anew."""
    document = json.loads(schema)
    document["properties"]["worker"] = _worker_schema()
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _worker_schema() -> dict[str, Any]:
    settings = list(chart_settings())
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {value_name(name): _value_schema(name, schema) for name, _, schema in settings},
        # Null removes a value: only what may be unset may be missing, so no switch can.
        "required": [value_name(name) for name, field, _ in settings if default_of(name, field) is not None],
    }


def _value_schema(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    kept = ("description", "type", "enum", "anyOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
    return {key: schema[key] for key in kept if key in schema} | _CHART_BOUNDS.get(name, {})
