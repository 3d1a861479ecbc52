"""What the referee makes of published results as a whole: for a program, for a person, and as a page to keep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib import resources
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from volery.extras import needed_from
from volery.referee.cases import Judgement, RefereeReason


@dataclass(frozen=True, slots=True)
class Refused:
    """A unit that cannot be judged, and why."""

    key: str
    reason: RefereeReason
    message: str


@dataclass(frozen=True, slots=True)
class Criterion:
    """A figure of all units together, and the most that it may be, where that was said."""

    name: str
    figure: float
    most: float | None
    made_of: str

    @property
    def passed(self) -> bool:
        """Whether the figure keeps to it."""
        return self.most is None or self.figure <= self.most


@dataclass(frozen=True)
class Verdict:
    """Judgements and what could not be judged; without `fail_above` there is nothing to fail."""

    judgements: Sequence[Judgement]
    refused: Sequence[Refused]
    threshold: float
    fail_above: float | None = None

    @property
    def worst_first(self) -> list[Judgement]:
        """Every judgement; of two that disagree alike, the one of more words comes first."""
        return sorted(self.judgements, key=lambda one: (-one.disagreement, -one.words, one.key))

    @property
    def beyond(self) -> int:
        """How many units disagree beyond the threshold."""
        return sum(one.disagreement > self.threshold for one in self.judgements)

    @property
    def criteria(self) -> tuple[Criterion, ...]:
        """Over all units together, so a long unit counts for more than a short one."""
        words = sum(one.words for one in self.judgements)
        edits = sum(one.edits for one in self.judgements)
        judged, escalated = len(self.judgements), sum(one.escalated for one in self.judgements)
        most_refused = None if self.fail_above is None else 0
        return (
            Criterion("disagreement", edits / max(words, 1), self.fail_above, f"{edits} edits of {words} words"),
            Criterion(f"units beyond {self.threshold:g}", self.beyond, None, f"of {judged}; {escalated} escalated"),
            Criterion("units not judged", len(self.refused), most_refused, _reasons(self.refused)),
        )

    @property
    def passed(self) -> bool:
        """Whether every criterion is met."""
        return all(one.passed for one in self.criteria)


def _reasons(refused: Sequence[Refused]) -> str:
    reasons = [one.reason for one in refused]
    return ", ".join(f"{reasons.count(reason)} {reason}" for reason in sorted(set(reasons)))


def as_object(verdict: Verdict) -> dict[str, Any]:
    """Everything, for a program, worst first; `passed` is null where no bound was given."""
    return {
        "passed": None if verdict.fail_above is None else verdict.passed,
        "criteria": [{**asdict(one), "passed": None if one.most is None else one.passed} for one in verdict.criteria],
        "threshold": verdict.threshold,
        "units": [asdict(one) for one in verdict.worst_first],
        "not_judged": [asdict(one) for one in verdict.refused],
    }


def as_text(verdict: Verdict, worst: int) -> Group:
    """The report for a terminal: criteria, the `worst` units, what could not be judged, and the verdict."""
    parts: list[RenderableType] = [_criteria_table(verdict.criteria), Text(), _worst_table(verdict, worst)]
    parts += [Text(f"not judged: {one.message}", "red") for one in verdict.refused[:worst]]
    if len(verdict.refused) > worst:
        parts.append(Text(f"… and {len(verdict.refused) - worst} more; --json has all", "red"))
    if verdict.fail_above is not None:
        parts += [Text(), _last_line(verdict)]
    return Group(*parts)


def _last_line(verdict: Verdict) -> Text:
    failed = [one.name for one in verdict.criteria if not one.passed]
    if not failed:
        return Text("the results pass", "bold green")
    return Text(f"the results fail: {', '.join(failed)}", "bold red")


def _criteria_table(criteria: Sequence[Criterion]) -> Table:
    table = Table("criterion", "figure", "most", "verdict", "made of", box=None, pad_edge=False)
    table.columns[1].justify = table.columns[2].justify = "right"
    for one in criteria:
        most = "" if one.most is None else f"{one.most:g}"
        table.add_row(one.name, f"{one.figure:.4g}", most, _verdict(one), one.made_of)
    return table


def _verdict(one: Criterion) -> Text:
    if one.most is None:
        return Text("reported", "dim")
    return Text("passed", "green") if one.passed else Text("failed", "bold red")


def _worst_table(verdict: Verdict, worst: int) -> Table:
    table = Table("unit", "disagreement", "first model", "escalated", "words", "language", box=None, pad_edge=False)
    for column in (1, 2, 4):
        table.columns[column].justify = "right"
    for one in verdict.worst_first[:worst]:
        style = "red" if one.disagreement > verdict.threshold else ""
        escalated = "yes" if one.escalated else ""
        figures = (f"{one.disagreement:.3f}", f"{one.first:.3f}", escalated, str(one.words), one.language or "")
        table.add_row(one.key, *figures, style=style)
    return table


def as_page(verdict: Verdict) -> str:
    """The report as one HTML page that needs nothing but itself.

    Raises:
        ConfigurationError: jinja2 is not installed.
    """
    with needed_from("bench"):
        import jinja2
    template = resources.files("volery.referee").joinpath("report.html.j2").read_text(encoding="utf-8")
    page = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined).from_string(template)
    return page.render(verdict=verdict)
