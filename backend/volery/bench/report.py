"""A receipt and its runs as one HTML page that needs nothing but itself."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from volery.bench.account import ArmRuns
from volery.bench.receipt import Receipt, median_index
from volery.bench.run import Run
from volery.bench.tables import heading, remarks
from volery.extras import needed_from


def write_report(receipt: Receipt, arms: Sequence[ArmRuns], path: Path) -> None:
    """Write the page; the lanes drawn are those of each arm's median run.

    Raises:
        ConfigurationError: a package that draws is not installed.
    """
    with needed_from("bench"):
        import jinja2
        from plotly.offline import get_plotlyjs

        from volery.bench.charts import lanes_chart, stages_chart

    drawn = [(arm.arm.name, _median(arm.runs)) for arm in arms if arm.runs]
    until_s = max((run.figures.wall_seconds for _, run in drawn), default=0.0)
    template = resources.files("volery.bench").joinpath("templates/report.html.j2").read_text(encoding="utf-8")
    page = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined).from_string(template)
    path.write_text(
        page.render(
            receipt=receipt,
            heading=heading(receipt),
            remarks=list(remarks(receipt)),
            plotly=get_plotlyjs(),
            stages=_html(stages_chart(receipt)),
            lanes=[(name, run.repeat, _html(lanes_chart(run, until_s))) for name, run in drawn],
        ),
        encoding="utf-8",
    )


def _median(runs: Sequence[Run]) -> Run:
    return runs[median_index([run.figures.audio_hours_per_gpu_hour for run in runs])]


def _html(figure: Any) -> str:
    return str(figure.to_html(full_html=False, include_plotlyjs=False, config={"displayModeBar": False}))
