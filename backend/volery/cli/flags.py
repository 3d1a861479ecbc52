"""`volery flags`: the switches, what this environment asks for, and what a running worker says they are."""

from __future__ import annotations

import dataclasses
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from prometheus_client.parser import text_string_to_metric_families
from rich.console import Group
from rich.table import Table
from rich.text import Text

from volery import metrics
from volery.cli.environment import read
from volery.cli.exits import ExitCode, UsageError
from volery.cli.output import say, tables, write_json
from volery.settings import SWITCHES, ProviderConfig, Switch, check_environment
from volery.units import ConfigurationError

_TIMEOUT_SECONDS = 10
_SILENT = "not reported"
_STYLES = {"on": "green", "off": "yellow"}


def flags(
    url: Annotated[
        str | None,
        typer.Option(help="Metrics of a running worker, such as http://localhost:9090/metrics: shows its live state."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show every switch: what this environment asks for, where that comes from, and what off restores.

    With --url also what it is on the live objects of a worker: on, off or inapplicable. Run it
    in the worker's own container, and what is asked for is what that worker was started with.
    Exits with 8 where a switch is not as asked for, or is missing among those that are reported;
    with 3 where none is reported or nothing answers.
    """
    check_environment()
    shown = [*_asked(read(ProviderConfig), live_states(url) if url is not None else None)]
    if as_json:
        write_json({"switches": [one.as_json() for one in shown]}, indent=2)
    else:
        tables().print(*map(_block, shown), sep="\n")
    wrong = [one for one in shown if one.differs]
    for one in wrong:
        say(f"{one.switch.name} is {one.live} in the worker, but this environment asks for {one.value}", "red")
    if wrong:
        raise typer.Exit(ExitCode.SWITCH_DIFFERS)


@dataclass(frozen=True)
class Shown:
    """A switch as it is asked for here, and as a worker reports it, where one was asked."""

    switch: Switch
    value: str
    source: str
    live: str | None

    @property
    def differs(self) -> bool:
        """Whether the worker does something else than is asked for, or does not say; one that cannot apply does not."""
        return self.live not in (None, "inapplicable", self.value)

    def as_json(self) -> dict[str, Any]:
        """One object, `live` only where a worker was asked."""
        facts = dataclasses.asdict(self.switch)
        asked = {"value": self.value == "on", "source": self.source, "class": facts.pop("kind")}
        names = {"switch": self.switch.name, "environment": self.switch.environment}
        return {**names, **facts, **asked} | ({} if self.live is None else {"live": self.live})


def _asked(config: ProviderConfig, live: Mapping[str, str] | None) -> list[Shown]:
    return [
        Shown(
            switch,
            _state(getattr(config, switch.setting)),
            "environment" if switch.setting in config.model_fields_set else "default",
            None if live is None else live.get(switch.name, _SILENT),
        )
        for switch in SWITCHES
    ]


def _state(value: bool) -> str:
    return "on" if value else "off"


def live_states(url: str) -> dict[str, str]:
    """Each switch that a worker reports at its metrics, and the state it is in.

    Raises:
        UsageError: it is no HTTP address.
        ConfigurationError: nothing answers there with the switches of a worker.
    """
    if not url.startswith(("http://", "https://")):
        raise UsageError(f"--url takes the address of a worker's metrics, such as http://localhost:9090/metrics: {url}")
    [series] = metrics.SWITCH_STATE.describe()
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT_SECONDS) as answer:
            families = list(text_string_to_metric_families(answer.read().decode()))
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"no metrics of a worker can be read at {url}: {error}") from error
    samples = (sample for family in families if family.name == series.name for sample in family.samples)
    states = {sample.labels["switch"]: sample.labels["state"] for sample in samples if sample.value == 1}
    if not states:
        raise ConfigurationError(f"no switch is reported at {url}: it is no worker's, or its models are not loaded yet")
    return states


def _block(one: Shown) -> Group:
    """One switch, its facts below each other, so that names stay whole however narrow the terminal is."""
    facts = Table.grid("", "", padding=(0, 0, 0, 2), pad_edge=True)
    facts.add_row("asked", Text.assemble((one.value, _STYLES[one.value]), f" ({one.source})"))
    if one.live is not None:
        facts.add_row("live", Text(one.live, "bold red" if one.differs else _STYLES.get(one.live, "")))
    facts.add_row("default", _state(one.switch.default))
    facts.add_row("class", one.switch.kind)
    facts.add_row("off restores", one.switch.off_restores)
    facts.add_row("set by", Text(one.switch.environment, no_wrap=True))
    return Group(Text(one.switch.setting, "bold"), facts)
