"""The formats that a result can be exported to."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from volery.export.rttm import to_rttm
from volery.export.subtitles import to_srt, to_vtt
from volery.export.text import to_txt
from volery.results import UnitResult


class Format(StrEnum):
    """A format of exported results; the value is the file extension."""

    JSON = "json"
    TXT = "txt"
    SRT = "srt"
    VTT = "vtt"
    RTTM = "rttm"


_WRITERS: dict[Format, Callable[[UnitResult], str]] = {
    Format.JSON: lambda result: result.to_json().decode(),
    Format.TXT: to_txt,
    Format.SRT: to_srt,
    Format.VTT: to_vtt,
    Format.RTTM: to_rttm,
}


def export(result: UnitResult, format: Format) -> str:
    """The result as a document of that format; a silent unit's is empty but valid."""
    return _WRITERS[format](result)
