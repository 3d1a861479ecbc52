"""Write docs/reference from the code: settings, results, manifests, commands, series, exit codes and models.

With --check nothing is written: what is stale is shown as a diff, and the exit code is 1.
"""

from __future__ import annotations

import difflib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import prometheus_client.metrics
import typer
from pydantic import SecretStr
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings

from volery import metrics
from volery.cli import app
from volery.cli.exits import ExitCode
from volery.cli.manifest import UnitLine
from volery.results import UnitResult
from volery.settings import GROUPS, PREFIX, data_folder
from volery.speech.hub import HUB_LICENCES
from volery.speech.models import CARRIED, WHISPER_FILES

REFERENCE = Path(__file__).resolve().parent.parent / "docs" / "reference"
_MADE = "<!-- Made by scripts/generate_docs.py; do not edit. -->\n\n"
_DATA_FOLDER = "<user data folder>"

Schema = dict[str, Any]


def main() -> None:
    """Write the pages, or with --check compare them."""
    pages = {REFERENCE / name: make() for name, make in PAGES.items()}
    if "--check" in sys.argv[1:]:
        stale = [line for path, text in pages.items() for line in _difference(path, text)]
        sys.stdout.writelines(stale)
        sys.exit("docs/reference is stale: run scripts/generate_docs.py" if stale else 0)
    REFERENCE.mkdir(parents=True, exist_ok=True)
    for path, text in pages.items():
        path.write_text(text, encoding="utf-8")


def _difference(path: Path, text: str) -> Iterator[str]:
    there = path.read_text(encoding="utf-8") if path.exists() else ""
    name = f"docs/reference/{path.name}"
    yield from difflib.unified_diff(
        there.splitlines(keepends=True), text.splitlines(keepends=True), name, f"{name} (made anew)"
    )


def _table(*rows: tuple[str, ...]) -> str:
    """A Markdown table; the first row is its head."""
    head, *body = rows
    lines = [head, ("---",) * len(head), *body]
    return "".join(f"| {' | '.join(map(_cell, line))} |\n" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def settings_page() -> str:
    """Every setting, a table a group."""
    sections = [_group_section(group) for group in GROUPS]
    intro = "# Settings\n\nEvery setting is an environment variable; all of them have defaults.\n"
    return _MADE + intro + "".join(sections)


def _group_section(group: type[BaseSettings]) -> str:
    rows = [_setting(name, field) for name, field in group.model_fields.items()]
    summary = (group.__doc__ or "").strip()
    return f"\n## {group.__name__}\n\n{summary}\n\n" + _table(("variable", "default", "values", "what it does"), *rows)


def _setting(name: str, field: FieldInfo) -> tuple[str, ...]:
    return f"`{PREFIX}{name.upper()}`", _default(field), _values(field), field.description or ""


def _default(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True, validated_data={})
    if value is None:
        return "unset"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, float):
        return f"`{value:g}`"
    text = value.get_secret_value() if isinstance(value, SecretStr) else str(value)
    # What depends on the machine is written so that the page is the same everywhere.
    for folder in (data_folder().as_uri().removeprefix("file://"), str(data_folder())):
        text = text.replace(folder, f"/{_DATA_FOLDER}")
    return f"`{text}`"


def _values(field: FieldInfo) -> str:
    bounds = [f"{sign} {getattr(bound, name):g}" for bound in field.metadata for name, sign in _signs(bound)]
    return ", ".join([_type_name(field.annotation), *bounds])


def _signs(bound: object) -> list[tuple[str, str]]:
    signs = {"gt": ">", "ge": "≥", "lt": "<", "le": "≤"}
    return [(name, sign) for name, sign in signs.items() if hasattr(bound, name)]


def _type_name(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return " or ".join(f"`{value}`" for value in get_args(kind))
    if get_origin(kind) in (Union, UnionType):
        return " or ".join(_type_name(part) for part in get_args(kind) if part is not type(None))
    return {bool: "`true` or `false`", int: "whole number", float: "number"}.get(kind, "text")


def result_schema() -> str:
    """The JSON schema of a result."""
    return _json(UnitResult.model_json_schema(mode="serialization", by_alias=True))


def manifest_schema() -> str:
    """The JSON schema of a manifest's line."""
    return _json(UnitLine.model_json_schema())


def _json(schema: Schema) -> str:
    return json.dumps({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}, indent=2) + "\n"


def result_page() -> str:
    """The fields of a result, a table a record."""
    schema = UnitResult.model_json_schema(mode="serialization", by_alias=True)
    intro = (
        "# The result of a unit\n\n"
        "A JSON document, as `volery results` prints it; its schema is [result.schema.json](result.schema.json). "
        "Times are seconds from the start of the unit (of its clip, where it has one).\n\n"
        "`volery results` puts `key`, `state`, `attempts`, `owner`, and the `reason` and the `error` where there is "
        "one, before these fields; a unit that is not done has only those.\n"
    )
    records = {"UnitResult": schema, **{name: part for name, part in schema["$defs"].items() if "properties" in part}}
    return _MADE + intro + "".join(_record(name, record, schema["$defs"]) for name, record in records.items())


def _record(name: str, schema: Schema, others: dict[str, Schema]) -> str:
    rows = [
        (f"`{field}`", _json_type(part, others), part.get("description", ""))
        for field, part in schema["properties"].items()
    ]
    return f"\n## {name}\n\n{schema.get('description', '')}\n\n" + _table(("field", "type", "what it says"), *rows)


def _json_type(part: Schema, others: dict[str, Schema]) -> str:
    if "$ref" in part:
        name = str(part["$ref"].rpartition("/")[2])
        return " or ".join(f"`{value}`" for value in others[name].get("enum", ())) or name
    if "anyOf" in part:
        return " or ".join(_json_type(one, others) for one in part["anyOf"])
    if part.get("type") == "array":
        return f"list of {_json_type(part['items'], others)}"
    if isinstance(part.get("additionalProperties"), dict):
        return f"object of {_json_type(part['additionalProperties'], others)}"
    return str(part["type"])


def commands_page() -> str:
    """Every command with its arguments and options."""
    root = typer.main.get_command(app)
    return _MADE + "# Commands\n" + "".join(_command(root, "volery", 2))


def _command(command: Any, name: str, level: int) -> Iterator[str]:
    context = typer.Context(command, info_name=name)
    usage = " ".join(command.collect_usage_pieces(context))
    yield f"\n{'#' * level} {name}\n\n```\n{name} {usage}\n```\n"
    if command.help:
        yield f"\n{command.help.strip()}\n"
    records = [one.get_help_record(context) for one in command.get_params(context) if one.name != "help"]
    if rows := [(f"`{names}`", said) for names, said in filter(None, records)]:
        yield "\n" + _table(("argument or option", "what it does"), *rows)
    for name_below, below in getattr(command, "commands", {}).items():
        yield from _command(below, f"{name} {name_below}", level + 1)


def metrics_page() -> str:
    """Every Prometheus series."""
    found = [one for one in vars(metrics).values() if isinstance(one, prometheus_client.metrics.MetricWrapperBase)]
    queue = {one.name for one in metrics.QUEUE.collect()}
    header = ("series", "type", "labels", "what it counts")
    return (
        f"{_MADE}# Series\n\nLabels are bounded. A worker serves these at `/metrics` on its HTTP port:\n\n"
        + _table(header, *(_series(one) for one in found if one.describe()[0].name not in queue))
        + "\n`volery exporter` serves these, and no worker does:\n\n"
        + _table(header, *(_series(one) for one in found if one.describe()[0].name in queue))
    )


def _series(metric: Any) -> tuple[str, ...]:
    [described] = metric.describe()
    name = f"{described.name}_total" if described.type == "counter" else described.name
    labels = ", ".join(f"`{label}`" for label in metric._labelnames)
    return f"`{name}`", described.type, labels, described.documentation


def exit_codes_page() -> str:
    """Every exit code."""
    rows = [(str(int(code)), f"`{code.name}`", code.meaning) for code in ExitCode]
    return _MADE + "# Exit codes\n\n" + _table(("code", "name", "what it says"), *rows)


_MODELS_INTRO = """# Models

`volery models list` shows those that the present settings use, `volery models verify` compares their digests, and
`volery models pull` fetches those of the hub; it is an init step of the chart. Opening a checkpoint or a `.nemo` file
can run code that is in it, so nothing is opened before its digest was compared: where it is another than is pinned, the
worker says both and does not start (exit code 3).

## Carried by packages

Their digests are part of Volery. A unit that asks `whisper-tiny.en` or `pocket` for another language than English is
rejected (`language_unsupported`); so it is by any Whisper for one that it lacks. Which languages a Parakeet from
elsewhere has, nobody says: it takes every unit.

"""

_MODELS_HUB = """
## From the hub

Fetched where the settings ask for them, into the cache below `HF_HOME`. Any other model of the hub can be named; its
page there says its licence.

"""

_MODELS_PINS = """
None of these has a digest that is part of Volery. Pin what you have tried: `volery models pull`, then
`volery models list`, whose found digest goes into a setting, as does the commit (the name below `snapshots` in the path
that it shows). A model of the hub without a pinned digest is loaded, with one warning in the log that names the digest.

| | commit, of a model from the hub | digest, of one from the hub or at a path |
| --- | --- | --- |
| ASR | `BATCH_PIPELINE_ASR_MODEL_REVISION` | `BATCH_PIPELINE_ASR_MODEL_SHA256` |
| diarization | `BATCH_PIPELINE_DIARIZATION_MODEL_REVISION` | `BATCH_PIPELINE_DIARIZATION_MODEL_SHA256` |

A pin that cannot apply, such as a digest beside a model that a package carries, is refused and not passed over.

## What is hashed

Of a model that is one file, such as a `.nemo`, the file: the digest is what `sha256sum` prints.

Of a model that is a folder, the list of its files: what `sha256sum` prints for each, sorted by path. Files and folders
whose name starts with a dot are left out.

```sh
cd FOLDER && find -L . -type f -not -path '*/.*' -printf '%P\\n' | LC_ALL=C sort | xargs -d '\\n' sha256sum | sha256sum
```

- **A CTranslate2 Whisper model** is {whisper};
  other files in its folder are never opened and do not count.
- **A diarization pipeline** is every file in the folder of its `config.yaml`. Where its digest is pinned, it may take
  models from that folder only (`$model/…`): those from elsewhere no digest would cover.

A file is hashed once, before it is loaded; whoever can write to it afterwards, or to the packages, can still harm. Keep
model folders and the cache writable for the worker alone.
"""


def models_page() -> str:
    """Every model that Volery ships, finds in packages or fetches by name: licences and digests."""
    carried = [(one.name, one.role, one.licence, one.package.replace("_", "-"), f"`{one.sha256}`") for one in CARRIED]
    return (
        _MADE
        + _MODELS_INTRO
        + _table(("model", "role", "licence", "package", "SHA-256"), *carried)
        + _MODELS_HUB
        + _table(("model", "licence"), *HUB_LICENCES.items())
        + _MODELS_PINS.format(whisper=", ".join(f"`{name}`" for name in WHISPER_FILES))
    )


PAGES: dict[str, Callable[[], str]] = {
    "settings.md": settings_page,
    "result.schema.json": result_schema,
    "result.md": result_page,
    "manifest.schema.json": manifest_schema,
    "cli.md": commands_page,
    "metrics.md": metrics_page,
    "exit-codes.md": exit_codes_page,
    "models.md": models_page,
}

if __name__ == "__main__":
    main()
