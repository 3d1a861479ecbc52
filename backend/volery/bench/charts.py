"""The charts of a report: where each arm's GPU section went, and what its lanes did when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from volery.bench.receipt import Figures, Receipt
from volery.bench.run import Run
from volery.worker.timeline import Phase, Span

HELD_IDLE = "GPU held idle"
REST = "rest of the groups"

STAGE_COLOURS = {"vad": "#4477aa", "diarize": "#66ccee", "asr": "#228833", REST: "#333366", HELD_IDLE: "#ee6677"}
"""Paul Tol's bright colours, which people who see few colours can tell apart too."""

IO_COLOURS = {"admission": "#ccbb44", "fetch_decode": "#aa3377", "publish": "#997700", "gpu_wait": "#bbbbbb"}

PHASES: tuple[tuple[Phase, str, str, str, float], ...] = (
    (Phase.ADMISSION, "admission", "IO", IO_COLOURS["admission"], 0.7),
    (Phase.PREPARATION, "preparation", "IO", IO_COLOURS["fetch_decode"], 0.7),
    (Phase.PUBLICATION, "publication", "IO", IO_COLOURS["publish"], 0.7),
    (Phase.GPU_WAIT, "wait for the GPU", "GPU", IO_COLOURS["gpu_wait"], 0.35),
    (Phase.GPU_SECTION, HELD_IDLE, "GPU", STAGE_COLOURS[HELD_IDLE], 0.7),
    (Phase.GROUP, "group on the GPU", "GPU", STAGE_COLOURS[REST], 0.7),
)
"""Phase, what a chart calls it, the lane's row it is drawn in, colour and height. Later ones lie over earlier ones."""

_FONT = {"family": "system-ui, sans-serif", "size": 13}


def stages_chart(receipt: Receipt) -> go.Figure:
    """Two panels: the GPU section, which is the bill, and what threads and lanes spent beside it."""
    titles = ("GPU section by stage", "beside it: lanes and IO threads")
    figure = make_subplots(rows=1, cols=2, subplot_titles=titles, horizontal_spacing=0.08, shared_yaxes=True)
    names = [arm.name for arm in receipt.arms]
    for stage, colour in STAGE_COLOURS.items():
        seconds = [_section_share(arm.median_run, stage) for arm in receipt.arms]
        figure.add_trace(_bar(names, seconds, stage, colour, "legend"), 1, 1)
    for stage, colour in IO_COLOURS.items():
        seconds = [arm.median_run.stage_seconds[stage] for arm in receipt.arms]
        figure.add_trace(_bar(names, seconds, stage, colour, "legend2"), 1, 2)
    figure.update_layout(
        barmode="stack",
        height=170 + 44 * len(names),
        legend=_legend(0.0),
        legend2=_legend(0.54),
        **_look(top=30),
    )
    figure.update_xaxes(title_text="seconds of the median run", rangemode="tozero")
    figure.update_yaxes(autorange="reversed", ticksuffix="  ")
    return figure


def lanes_chart(run: Run, until_s: float) -> go.Figure:
    """What every lane of a run did and when: a row for its IO and one for its time with the GPU.

    `until_s` is where the axis ends: the same for all arms, so that their lengths can be compared.
    """
    figure = go.Figure()
    for phase, label, row, colour, height in PHASES:
        spans = [span for span in run.spans if span.phase is phase]
        figure.add_trace(_bars(spans, label, row, colour, height))
    rows = [f"lane {lane} {row}" for lane in sorted({span.lane for span in run.spans}) for row in ("IO", "GPU")]
    figure.update_layout(barmode="overlay", height=110 + 40 * len(rows), legend=_legend(0.0), **_look(top=10))
    figure.update_xaxes(title_text="seconds since the run began", range=[0, until_s], showgrid=True, gridcolor="#eee")
    figure.update_yaxes(categoryorder="array", categoryarray=rows[::-1], ticksuffix="  ")
    return figure


def _section_share(figures: Figures, stage: str) -> float:
    """What a stage has of the GPU section; all together they are the section."""
    if stage == HELD_IDLE:
        return figures.gpu_held_idle_seconds
    if stage == REST:
        return figures.gpu_busy_seconds - sum(figures.stage_seconds[one] for one in ("vad", "diarize", "asr"))
    return figures.stage_seconds[stage]


def _bar(names: Sequence[str], seconds: Sequence[float], label: str, colour: str, legend: str) -> go.Bar:
    return go.Bar(
        y=names,
        x=seconds,
        name=label,
        orientation="h",
        marker_color=colour,
        legend=legend,
        hovertemplate="%{y}: " + label + " %{x:.2f} s<extra></extra>",
    )


def _bars(spans: Sequence[Span], label: str, row: str, colour: str, height: float) -> go.Bar:
    return go.Bar(
        y=[f"lane {span.lane} {row}" for span in spans],
        base=[round(span.began_s, 4) for span in spans],
        x=[round(span.ended_s - span.began_s, 4) for span in spans],
        customdata=[[span.units, round(span.audio_s, 1)] for span in spans],
        name=label,
        orientation="h",
        marker={"color": colour, "line": {"width": 0}},
        width=height,
        hovertemplate=label + ": %{x:.2f} s from %{base:.2f} s, %{customdata[0]} units, "
        "%{customdata[1]} s of audio<extra></extra>",
    )


def _legend(x: float) -> dict[str, Any]:
    """A row of keys at the foot of the figure, in the order of the bars."""
    place = {"x": x, "xanchor": "left", "y": 0.0, "yref": "container", "yanchor": "bottom"}
    return {"orientation": "h", "traceorder": "normal", **place}


def _look(top: int) -> dict[str, Any]:
    margin = {"l": 10, "r": 10, "t": top, "b": 90}
    return {"font": _FONT, "plot_bgcolor": "white", "paper_bgcolor": "white", "margin": margin}
