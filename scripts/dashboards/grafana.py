"""A description as Grafana's JSON."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, table, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import LegendPlacement, StackingMode, TooltipDisplayMode
from grafana_foundation_sdk.models.dashboard import (
    DashboardLinkType,
    DataSourceRef,
    DataTransformerConfig,
    VariableOption,
    VariableRefresh,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from dashboards.description import Dashboard, Figure, Graph, Panel, Query, Table, Variable

_DATASOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
_TAG = "volery"


def as_json(described: Dashboard) -> str:
    """The file that Grafana loads."""
    board = (
        dashboard.Dashboard(described.title)
        .uid(f"volery-{described.name}")
        .tags([_TAG])
        .editable()
        .refresh("1m")
        .time("now-6h", "now")
        .with_variable(dashboard.DatasourceVariable("datasource").type("prometheus").label("Prometheus"))
        .link(
            dashboard.DashboardLink("Volery")
            .type(DashboardLinkType.DASHBOARDS)
            .tags([_TAG])
            .as_dropdown(True)
            .include_vars(True)
            .keep_time(True)
        )
    )
    for variable in described.variables:
        board = board.with_variable(_variable(variable))
    numbers = itertools.count(1)
    for row in described.rows:
        board = board.with_row(dashboard.Row(row.title).id(next(numbers)))
        for panel in row.panels:
            board = board.with_panel(_panel(panel).id(next(numbers)))
    return JSONEncoder(sort_keys=True, indent=2, ensure_ascii=False).encode(board.build()) + "\n"


def _variable(variable: Variable) -> dashboard.QueryVariable | dashboard.CustomVariable:
    if not variable.values:
        return (
            dashboard.QueryVariable(variable.name)
            .query(variable.query)
            .datasource(_DATASOURCE)
            .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        )
    first = VariableOption(selected=True, text=variable.values[0], value=variable.values[0])
    return dashboard.CustomVariable(variable.name).values(",".join(variable.values)).current(first)


def _panel(panel: Panel) -> timeseries.Panel | stat.Panel | table.Panel:
    match panel:
        case Graph():
            return _graph(panel)
        case Figure():
            return _figure(panel)
        case Table():
            return _table(panel)


def _graph(panel: Graph) -> timeseries.Panel:
    return (
        timeseries.Panel()
        .title(panel.title)
        .description(panel.says)
        .datasource(_DATASOURCE)
        .unit(panel.unit)
        .min(0)
        .span(12)
        .height(8)
        .fill_opacity(30 if panel.stacked else 0)
        .stacking(common.StackingConfig().mode(StackingMode.NORMAL if panel.stacked else StackingMode.NONE))
        .legend(common.VizLegendOptions().show_legend(True).placement(LegendPlacement.BOTTOM).calcs([]))
        .tooltip(common.VizTooltipOptions().mode(TooltipDisplayMode.MULTI))
        .targets(list(_targets(*panel.queries)))
    )


def _figure(panel: Figure) -> stat.Panel:
    return (
        stat.Panel()
        .title(panel.title)
        .description(panel.says)
        .datasource(_DATASOURCE)
        .unit(panel.unit)
        .decimals(1)
        .span(4)
        .height(5)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
        .targets(list(_targets(panel.query)))
    )


def _table(panel: Table) -> table.Panel:
    hidden = {"Time": True, "Value": True}
    return (
        table.Panel()
        .title(panel.title)
        .description(panel.says)
        .datasource(_DATASOURCE)
        .span(12)
        .height(8)
        .show_header(True)
        .with_target(next(_targets(panel.query)).format(PromQueryFormat.TABLE).instant())
        .with_transformation(DataTransformerConfig(id_val="organize", options={"excludeByName": hidden}))
    )


def _targets(*queries: Query) -> Iterator[prometheus.Dataquery]:
    for letter, query in zip("ABCDEFGH", queries, strict=False):
        target = prometheus.Dataquery().ref_id(letter).expr(query.expr).range()
        yield target.legend_format(query.legend) if query.legend else target
