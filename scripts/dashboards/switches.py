"""The switches: their state by pod, and the series that each is read back by, beside the window before the roll."""

from __future__ import annotations

import re

from dashboards.description import FLEET, FLEET_VARIABLES, Dashboard, Graph, Panel, Query, Row, Table, Variable
from flag_registry import Readback, read_register
from volery.settings import SWITCHES, Switch

_SERIES = re.compile(r"(batch_pipeline_\w+)(?:\{([^}]*)\})?(\[\w+\])")
"""A series over a window, as the register's readback queries name it."""


def of_fleet(query: str, offset: str = "") -> str:
    """A readback query for one fleet's pods, some time ago if need be."""

    def matched(found: re.Match[str]) -> str:
        name, matchers, window = found.groups()
        return f"{name}{{{','.join(filter(None, (FLEET, matchers)))}}}{window}{offset}"

    return _SERIES.sub(matched, query)


def _panel(switch: Switch, readback: Readback) -> Panel:
    return Graph(
        f"{switch.name}: readback",
        f"When off: {readback.off_shows}. Choose under `before` how long ago the roll was.",
        "none",
        (
            Query(of_fleet(readback.query), "now: {{pod}}"),
            Query(of_fleet(readback.query, " offset $before"), "before: {{pod}}"),
        ),
    )


def switches_dashboard() -> Dashboard:
    """The dashboard, made from the register."""
    flags = read_register().flags
    state = f"batch_pipeline_switch_state{{{FLEET}}}"
    return Dashboard(
        "switches",
        "Volery: switches",
        (*FLEET_VARIABLES, Variable("before", values=("1h", "2h", "6h", "12h", "1d", "2d", "7d"))),
        (
            Row(
                "State, read from the live objects",
                (
                    Graph(
                        "Pods by switch and state",
                        "Inapplicable: the switch cannot apply there, CUDA graphs on a CPU for example.",
                        "none",
                        (Query(f"count by (switch, state) ({state} == 1)", "{{switch}}: {{state}}"),),
                        stacked=True,
                    ),
                    Table("State by pod", "Every pod, now.", Query(f"max by (pod, switch, state) ({state}) == 1")),
                ),
            ),
            *(
                Row(switch.name, tuple(_panel(switch, one) for one in flags[switch.setting].readback))
                for switch in SWITCHES
            ),
        ),
    )
