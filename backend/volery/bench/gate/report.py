"""A verdict for a program, and for a person."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from volery.bench.gate.figures import UnitFigures
from volery.bench.gate.runs import Run
from volery.bench.gate.texts import Column, columns, in_rows, near_differences
from volery.bench.gate.verdict import Criterion, Verdict, only_in

_NAMED = 10
"""Units and documents named in a line of the report; the object names all."""

_LABELS = ("base       ", "candidate  ", "           ")


def as_object(verdict: Verdict, worst: int) -> dict[str, Any]:
    """Everything, for a program, with the words that differ in the `worst` units."""
    base, candidate = verdict.base, verdict.candidate
    unreadable = [{"path": str(one.path), "why": one.why} for one in (*base.unreadable, *candidate.unreadable)]
    document: dict[str, Any] = {
        "passed": verdict.passed,
        "base": str(base.folder),
        "candidate": str(candidate.folder),
        "units": len(base.results) - len(only_in(base, candidate)),
        "criteria": [_criterion(one) for one in verdict.criteria],
        "lost": only_in(base, candidate),
        "added": only_in(candidate, base),
        "unreadable": unreadable,
    }
    if verdict.differences is not None:
        return document | {"differences": verdict.differences}
    return document | {"worst": [_unit(one, verdict) for one in verdict.worst(worst)]}


def _criterion(one: Criterion) -> dict[str, Any]:
    names = ("name", "figure", "threshold", "least", "passed", "made_of")
    return {name: getattr(one, name) for name in names}


def _unit(unit: UnitFigures, verdict: Verdict) -> dict[str, Any]:
    differing = [column for column in _columns(unit, verdict) if not column.same]
    words = [{"base": column.base, "candidate": column.candidate} for column in differing]
    return {**dataclasses.asdict(unit), "words": words}


def _columns(unit: UnitFigures, verdict: Verdict) -> list[Column]:
    return columns(verdict.base.result(unit.key), verdict.candidate.result(unit.key))


def as_text(verdict: Verdict, worst: int, width: int) -> Group:
    """The report for a terminal of that many cells: criteria, what is missing, then the `worst` units."""
    parts: list[RenderableType] = [_criteria_table(verdict.criteria), *_missing(verdict)]
    if verdict.differences is None:
        for unit in verdict.worst(worst):
            parts += [Text(), *_unit_lines(unit, verdict, width)]
    else:
        parts += _difference_lines(verdict.differences, worst)
    return Group(*parts, Text(), _last_line(verdict))


def _criteria_table(criteria: Sequence[Criterion]) -> Table:
    table = Table("criterion", "figure", "threshold", "verdict", "made of", box=None, pad_edge=False)
    table.columns[1].justify = table.columns[2].justify = "right"
    for one in criteria:
        table.add_row(one.name, f"{one.figure:.5g}", _threshold(one), _verdict(one), one.made_of)
    return table


def _threshold(one: Criterion) -> str:
    return "" if one.threshold is None else f"{'≥' if one.least else '≤'} {one.threshold:g}"


def _verdict(one: Criterion) -> Text:
    if one.threshold is None:
        return Text("reported", "dim")
    return Text("passed", "green") if one.passed else Text("failed", "bold red")


def _missing(verdict: Verdict) -> Iterator[Text]:
    """What could not be compared, named."""
    base, candidate = verdict.base, verdict.candidate
    named = (
        ("lost", [_with_state(key, candidate) for key in only_in(base, candidate)]),
        ("added", [_with_state(key, base) for key in only_in(candidate, base)]),
        ("cannot be read", [f"{one.path} ({one.why})" for one in (*base.unreadable, *candidate.unreadable)]),
    )
    for what, names in named:
        if names:
            more = f", and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
            yield Text(f"{what}: {', '.join(names[:_NAMED])}{more}", "red", no_wrap=True, overflow="ignore")


def _with_state(key: str, other: Run) -> str:
    """A key, and what became of its unit in the run that has no result of it, where that is known."""
    state = other.unfinished.get(key)
    return f"{key} ({state})" if state else key


def _unit_lines(unit: UnitFigures, verdict: Verdict, width: int) -> Iterator[Text]:
    yield Text.assemble((unit.key, "bold"), f": {', '.join(_troubles(unit))}")
    for rows in in_rows(near_differences(_columns(unit, verdict)), width - len(_LABELS[0])):
        yield from (Text.assemble((label, "dim"), row) for label, row in zip(_LABELS, rows, strict=True))


def _troubles(unit: UnitFigures) -> Iterator[str]:
    if unit.class_changed:
        yield f"class {unit.base_class} → {unit.candidate_class}"
    if unit.edits:
        yield f"{unit.edits} edits of {unit.base_words} words"
    if unit.speakers.missed_s > 0:
        yield f"speakers disagree for {unit.speakers.missed_s:.2f} of {unit.speakers.of_s:.2f} speaker-seconds"
    if unit.lost_s:
        yield f"{unit.lost_s:.2f} s of speech lost"
    if unit.drift:
        yield f"confidence drift {unit.drift / unit.aligned_words:.4f}"


def _difference_lines(differences: dict[str, str], count: int) -> Iterator[Text]:
    for key, what in list(differences.items())[:count]:
        yield Text.assemble((key, "bold"), f": {what}")
    if len(differences) > count:
        yield Text(f"… and {len(differences) - count} more units; -n shows more, --json all")


def _last_line(verdict: Verdict) -> Text:
    failed = [one.name for one in verdict.criteria if not one.passed]
    if not failed:
        return Text("the candidate passes", "bold green")
    return Text(f"the candidate fails: {', '.join(failed)}", "bold red")
