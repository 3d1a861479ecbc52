"""What a dashboard consists of."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Query:
    """A PromQL query, in which $variables stand, and the legend of its series."""

    expr: str
    legend: str = ""


@dataclass(frozen=True)
class Graph:
    """Series over time."""

    title: str
    says: str
    unit: str
    queries: tuple[Query, ...]
    stacked: bool = False


@dataclass(frozen=True)
class Figure:
    """One number as it is now."""

    title: str
    says: str
    unit: str
    query: Query


@dataclass(frozen=True)
class Table:
    """Series as they are now, a line each."""

    title: str
    says: str
    query: Query


Panel = Graph | Figure | Table


@dataclass(frozen=True)
class Variable:
    """What the viewer chooses: from the values of a label, or from those given."""

    name: str
    query: str = ""
    values: tuple[str, ...] = ()


@dataclass(frozen=True)
class Row:
    """Panels that belong together."""

    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True)
class Dashboard:
    """A dashboard; `name` is its file's, too."""

    name: str
    title: str
    variables: tuple[Variable, ...]
    rows: tuple[Row, ...]


_ANY = '__name__=~"batch_pipeline_(gpu_busy_seconds_total|store_reachable)"'
FLEET_VARIABLES = (
    Variable("namespace", f"label_values({{{_ANY}}}, namespace)"),
    Variable("job", f'label_values({{{_ANY},namespace="$namespace"}}, job)'),
)
"""One fleet: the release is the job. One without workers can be chosen, too: its exporter reports."""

FLEET = 'namespace="$namespace",job="$job"'
"""The matchers of one fleet's series."""
