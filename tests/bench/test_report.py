"""Tables and the page of a benchmark."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from bench.stubs import QUICK, Trial
from volery.bench.bench import Bench
from volery.bench.charts import PHASES, lanes_chart, stages_chart
from volery.bench.receipt import median_index
from volery.bench.report import write_report
from volery.bench.tables import print_receipt, write_tables
from volery.units import Unit


@pytest.fixture
async def bench(trial: Trial) -> Bench:
    units = [*QUICK.make_units(trial.folder), Unit(key="gone", audio_uri="file:///nowhere/gone.wav")]
    return await trial.run(trial.plan(units, arms="all-on,all-off", repeats=3, profile=QUICK))


async def test_the_page_needs_nothing_but_itself(bench: Bench, tmp_path: Path) -> None:
    write_report(bench.receipt(), bench.arms, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    without_plotly = page[page.index("</script>") :]
    assert not re.findall(r"""(?:src|href)=["']""", without_plotly)
    assert page.count("plotly.js v") == 1
    assert page.count("Plotly.newPlot(") == 1 + len(bench.arms)


async def test_the_page_names_arms_as_text(bench: Bench, tmp_path: Path) -> None:
    receipt = bench.receipt()
    strange = receipt.model_copy(update={"io": "<b>&"})
    write_report(strange, bench.arms, tmp_path / "report.html")
    assert "&lt;b&gt;&amp;" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize(("objective", "index"), [([3.0, 1.0, 2.0], 2), ([5.0], 0), ([2.0, 1.0], 1)])
def test_the_median_run_is_the_lower_of_two_in_the_middle(objective: list[float], index: int) -> None:
    assert median_index(objective) == index


async def test_every_span_of_a_run_is_drawn_in_the_row_of_its_lane(bench: Bench) -> None:
    run = bench.arms[0].runs[0]
    chart = lanes_chart(run, 10.0)
    for trace, (phase, *_) in zip(chart.data, PHASES, strict=True):
        assert len(trace.x) == sum(span.phase is phase for span in run.spans)
    assert set(chart.layout.yaxis.categoryarray) == {"lane 0 IO", "lane 0 GPU", "lane 1 IO", "lane 1 GPU"}


async def test_the_bars_of_an_arm_add_up_to_the_gpu_sections_of_its_median_run(bench: Bench) -> None:
    receipt = bench.receipt()
    bars = [trace for trace in stages_chart(receipt).data if trace.legend == "legend"]
    for index, arm in enumerate(receipt.arms):
        assert sum(trace.x[index] for trace in bars) == pytest.approx(arm.median_run.gpu_section_seconds)


async def test_tables_show_every_arm_its_ceiling_and_units_that_failed(bench: Bench, tmp_path: Path) -> None:
    write_tables(bench.receipt(), tmp_path / "table.txt")
    text = (tmp_path / "table.txt").read_text()
    assert "simulated quick, 6 units" in text
    assert re.search(r"^all-off +\d+\.\d\d .* 100\.0$", text, re.MULTILINE)
    assert "all-off, repeat 3: unit gone ended rejected: audio_missing" in text


async def test_tables_fit_a_terminal(bench: Bench) -> None:
    shown = io.StringIO()
    print_receipt(bench.receipt(), Console(file=shown, width=80))
    assert "…" not in shown.getvalue()
    assert max(len(line.rstrip()) for line in shown.getvalue().splitlines()) <= 80
