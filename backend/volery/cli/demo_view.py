"""How `volery demo` shows what came of its units."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from rich import box
from rich.table import Table
from rich.text import Text

from volery.cli.running import Outcome
from volery.results import UnitResult

_COLOURS = ("cyan", "magenta", "yellow", "green", "blue", "red")
_NOBODY = "white"


def outcome_table(outcomes: Sequence[Outcome]) -> Table:
    """A row a unit: how it ended, what was found in it, and by which ASR model; or why nothing was."""
    table = Table(
        *("key", "state", "class or reason", "seconds", "speakers", "words", "ASR model"),
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        show_edge=False,
        padding=0,
    )
    for column in table.columns:
        column.no_wrap = True
    for column in table.columns[3:6]:
        column.justify = "right"
    for outcome in outcomes:
        record, result = outcome.record, outcome.result
        state = Text(record.state, "green" if result else "red")
        table.add_row(record.unit.key, state, *(_found(result) if result else (record.reason or "",)))
    return table


def _found(result: UnitResult) -> tuple[str, ...]:
    """An ASR model hears nothing of a unit in which nobody speaks."""
    model = result.models["asr"].name if result.speech else ""
    return (result.result_class, f"{result.duration_s:.2f}", str(len(result.speakers)), str(len(result.words)), model)


def heading(result: UnitResult, what: str) -> Text:
    """Above a conversation: its key, what it is, and the ASR model that heard it."""
    return Text.assemble("\n", (result.key, "bold"), f": {what}, heard by {result.models['asr'].name}")


def conversation(result: UnitResult) -> Table:
    """The words as they are said, a row for each change of speaker, each speaker in a colour."""
    colours = {speaker.id: _COLOURS[at % len(_COLOURS)] for at, speaker in enumerate(result.speakers)}
    table = Table.grid(padding=(0, 2))
    for speaker, group in groupby(result.words, key=lambda word: word.speaker):
        words = list(group)
        colour = colours.get(speaker or "", _NOBODY)
        said = Text(" ".join(word.text for word in words), colour)
        table.add_row(Text(_clock(words[0].start_s), "dim"), Text(speaker or "?", f"bold {colour}"), said)
    return table


def _clock(seconds: float) -> str:
    tenths = round(seconds * 10)
    return f"{tenths // 600:02}:{tenths // 10 % 60:02}.{tenths % 10}"
