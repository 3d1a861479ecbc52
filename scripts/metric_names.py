"""Which series a query names, and which ones Volery has."""

from __future__ import annotations

from collections.abc import Iterator

import prometheus_client.metrics
import promql_parser

from volery import metrics

_PARTS = ("lhs", "rhs", "expr", "param", "vector_selector")
_SUFFIXES = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_count", "_sum")}


def names_in(query: str) -> set[str]:
    """The series that a query names.

    Raises:
        ValueError: it is no PromQL.
    """
    return {str(one.name) for one in _selectors(promql_parser.parse(query))}


def _selectors(expr: promql_parser.Expr) -> Iterator[promql_parser.VectorSelector]:
    if isinstance(expr, promql_parser.VectorSelector):
        yield expr
    parts = [getattr(expr, name, None) for name in _PARTS]
    for part in [*parts, *getattr(expr, "args", ())]:
        if part is not None:
            yield from _selectors(part)


def series_of_volery() -> set[str]:
    """Every series of `volery.metrics` by the name under which Prometheus keeps it."""
    names: set[str] = set()
    for one in vars(metrics).values():
        if isinstance(one, prometheus_client.metrics.MetricWrapperBase):
            [described] = one.describe()
            names |= {f"{described.name}{suffix}" for suffix in _SUFFIXES[described.type]}
    return names
