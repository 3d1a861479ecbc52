"""The register of switches: settings, what people say of each, and the rendered chart, which must agree."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import helm_python as helm
import yaml
from pydantic import BaseModel, ConfigDict, SecretStr, TypeAdapter

from chart_rendering import Values, plain_environment, worker_container
from chart_settings import value_name
from volery.settings import GROUPS, PREFIX, SWITCHES, Switch

ROOT = Path(__file__).resolve().parent.parent
CONFIG = ROOT / "config"
NO_EVIDENCE = "none yet"

SettingClass = Literal["switch", "tuning", "wiring", "secret"]


class Readback(BaseModel):
    """A series that shows a switch at work, and what it shows once the switch is off."""

    model_config = ConfigDict(extra="forbid")

    query: str
    off_shows: str


class Registered(BaseModel):
    """What only people know of a switch."""

    model_config = ConfigDict(extra="forbid")

    owner: str
    missing: Literal["open", "closed"]
    readback: list[Readback]
    evidence: str
    delete_when: str


@dataclass(frozen=True)
class Register:
    """The files of config/ as they were read."""

    flags: dict[str, Registered]
    budget: int
    classes: dict[str, SettingClass]


def read_register(folder: Path = CONFIG) -> Register:
    """The files of config/.

    Raises:
        pydantic.ValidationError: one of them says something that no register may.
    """
    flags = yaml.safe_load((folder / "feature-flags.yaml").read_text(encoding="utf-8"))
    budget = json.loads((folder / "flag_budget.json").read_text(encoding="utf-8"))
    classes = json.loads((folder / "deployment-setting-classification.json").read_text(encoding="utf-8"))
    return Register(
        TypeAdapter(dict[str, Registered]).validate_python(flags),
        TypeAdapter(dict[Literal["flags"], int]).validate_python(budget)["flags"],
        TypeAdapter(dict[str, SettingClass]).validate_python(classes),
    )


def disagreements(register: Register, switches: tuple[Switch, ...] = SWITCHES) -> list[str]:
    """What the settings, the files of config/ and the rendered chart say differently of one another."""
    return [
        *_of_flags(register, switches),
        *_of_budget(register, switches),
        *_of_classes(register, switches),
        *_of_chart(switches),
    ]


def _of_flags(register: Register, switches: tuple[Switch, ...]) -> Iterator[str]:
    known = {switch.setting: switch for switch in switches}
    for name in sorted(known.keys() ^ register.flags.keys()):
        missing = "config/feature-flags.yaml" if name in known else "ProviderConfig"
        yield f"the switch {name} is not in {missing}"
    for name in sorted(known.keys() & register.flags.keys()):
        flag = register.flags[name]
        if (flag.missing == "open") != known[name].default:
            yield f"{name} fails {flag.missing} by config/feature-flags.yaml, but its default is {known[name].default}"
        if known[name].default and flag.evidence != NO_EVIDENCE and (said := _why_no_evidence(ROOT / flag.evidence)):
            yield f"the evidence of {name} {said}: {flag.evidence}"


def _why_no_evidence(path: Path) -> str | None:
    """Why a file says nothing for a default that is on in a fleet of GPUs; None where it is a GPU's receipt."""
    if not path.is_file():
        return "is no file of this repository"
    try:
        receipt = json.loads(path.read_text(encoding="utf-8"))
        machine, arms = receipt["machine"], receipt.get("arms", ())
        simulated = any(arm["ran"]["models"]["simulated"] for arm in arms)
    except (ValueError, LookupError, TypeError):
        return "is no receipt of volery bench or of scripts/gpu_check.py"
    if simulated:
        return "is of a simulated device"
    if machine.get("accelerator") is None and machine.get("device", "cpu") == "cpu":
        return "was made without an accelerator"
    return "does not pass" if receipt.get("cuda_graphs", "passed") != "passed" else None


def _of_budget(register: Register, switches: tuple[Switch, ...]) -> Iterator[str]:
    if len(switches) != register.budget:
        yield (
            f"there are {len(switches)} switches and config/flag_budget.json has {register.budget}: "
            "delete one, or change the budget in the same commit and say why"
        )


def _of_classes(register: Register, switches: tuple[Switch, ...]) -> Iterator[str]:
    settings = {f"{PREFIX}{name}".upper(): field for group in GROUPS for name, field in group.model_fields.items()}
    by_code: dict[str, set[str]] = {
        "switch": {switch.environment for switch in switches},
        "secret": {name for name, field in settings.items() if field.annotation is SecretStr},
    }
    for name in sorted(settings.keys() ^ register.classes.keys()):
        said = "has no class in" if name in settings else "is no setting, but is in"
        yield f"{name} {said} config/deployment-setting-classification.json"
    for kind, names in by_code.items():
        listed = {name for name, listed in register.classes.items() if listed == kind}
        for name in sorted(names ^ listed):
            yield f"{name} is {'a' if name in names else 'no'} {kind} by the settings; its class says otherwise"


def _of_chart(switches: tuple[Switch, ...]) -> Iterator[str]:
    for switch in switches:
        for value in (True, False):
            if (said := declared(switch, value)) != str(value).lower():
                yield f"the chart renders {switch.environment} as {said!r} where {helm_value(switch)} is {value}"
    environment = plain_environment()
    for switch in switches:
        if environment.get(switch.environment) != str(switch.default).lower():
            yield f"the chart's default of {helm_value(switch)} is not the setting's"
    for one in worker_container()["env"]:
        if "value" in one and one["name"] == f"{PREFIX}DATABASE_URL":
            yield f"the chart holds {one['name']} as plain text"


def helm_value(switch: Switch) -> str:
    """The chart's value that sets a switch."""
    return f"worker.{value_name(switch.setting)}"


def declared(switch: Switch, value: bool) -> str | None:
    """What the worker's container is given for a switch when its Helm value is `value`; None where it is nothing."""
    values: Values = {"worker": {value_name(switch.setting): value}}
    try:
        return plain_environment(values).get(switch.environment)
    except helm.HelmValuesError:
        return None


def registry_page(register: Register) -> str:
    """docs/feature-flag-registry.md."""
    counts = {kind: list(register.classes.values()).count(kind) for kind in ("switch", "tuning", "wiring", "secret")}
    told = ", ".join(f"{kind} {count}" for kind, count in counts.items())
    return (
        "<!-- Made by scripts/generate_config.py; do not edit. -->\n\n# Switches\n\n"
        "Made from the settings, from `config/feature-flags.yaml` and from the chart as Helm renders it.\n"
        f"There are {len(SWITCHES)} switches, as many as `config/flag_budget.json` allows ({register.budget}).\n"
        f"All settings by class (`config/deployment-setting-classification.json`): {told}.\n\n"
        "Evidence for a default that is on is a receipt of `volery bench` or of `scripts/gpu_check.py` from a GPU, "
        "committed here.\nOne of a simulated device or of a CPU is none and is refused: "
        "`none yet` says that nobody has measured it.\n\n"
        "How to roll one and read it back: [rolling](operating/rolling.md).\n"
        + "".join(_section(switch, register.flags[switch.setting]) for switch in SWITCHES)
    )


def _section(switch: Switch, flag: Registered) -> str:
    on, off = declared(switch, True), declared(switch, False)
    rows: list[tuple[str, str]] = [
        ("environment", f"`{switch.environment}`"),
        ("Helm value", f"`{helm_value(switch)}`"),
        ("declared by the chart", f'`"{on}"` and `"{off}"`; by default `"{plain_environment()[switch.environment]}"`'),
        ("class", f"`{switch.kind}`"),
        ("owner", flag.owner),
        ("default", "on" if switch.default else "off"),
        ("a missing value", f"fails {flag.missing}: the switch is {'on' if flag.missing == 'open' else 'off'}"),
        ("off restores", switch.off_restores),
        ("state", f'`batch_pipeline_switch_state{{switch="{switch.name}"}}`'),
        ("evidence for its default", _evidence(flag.evidence)),
        ("delete when", flag.delete_when),
    ]
    table = "".join(f"| {name} | {text} |\n" for name, text in rows)
    series = "".join(f"- `{one.query}`\n  when off: {one.off_shows}\n" for one in flag.readback)
    return (
        f"\n## {switch.name}\n\n| | |\n| --- | --- |\n{table}\n"
        f"Read back, against the window before the roll:\n\n{series}"
    )


def _evidence(evidence: str) -> str:
    return evidence if evidence == NO_EVIDENCE else f"[{evidence}](../{evidence})"
