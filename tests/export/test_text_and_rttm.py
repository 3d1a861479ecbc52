"""Results as plain text, JSON and RTTM."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from export.documents import result, steady
from volery.export import Format, export
from volery.results import UnitResult

TWO_VOICES = [
    *steady("good morning", "SPEAKER_00", start=1.25),
    *steady("and to you", "SPEAKER_01", start=61.0),
    *steady("thanks", "SPEAKER_00", start=3725.99),
]


def test_text_has_a_paragraph_for_each_change_of_speaker() -> None:
    assert export(result(*TWO_VOICES), Format.TXT) == (
        "[00:01.2] SPEAKER_00: good morning\n\n[01:01.0] SPEAKER_01: and to you\n\n[1:02:05.9] SPEAKER_00: thanks\n"
    )


def test_words_of_nobody_stand_without_a_name() -> None:
    said = [*steady("who said", None), *steady("this", "SPEAKER_00", start=2)]
    assert export(result(*said), Format.TXT) == "[00:00.0] who said\n\n[00:02.0] SPEAKER_00: this\n"


def test_text_is_in_the_order_of_speech() -> None:
    said = [("second", 2.0, 2.5, None), ("first", 1.0, 1.5, None)]
    assert export(result(*said), Format.TXT) == "[00:01.0] first second\n"


def test_line_breaks_and_controls_in_words_do_not_break_a_paragraph() -> None:
    said = [
        ("one\n\ntwo", 0.0, 1.0, "SPEAKER\n00"),
        ("\x00thr\x1bee\u2028four", 1.0, 2.0, "SPEAKER\n00"),
        (" ", 2, 3, None),
    ]
    assert export(result(*said), Format.TXT) == "[00:00.0] SPEAKER 00: one two three four\n"


def test_json_is_the_result_itself() -> None:
    document = result(*TWO_VOICES)
    exported = export(document, Format.JSON)
    assert UnitResult.model_validate_json(exported) == document
    assert json.loads(exported)["class"] == "speech"


TURNS = ((0.0, 1.5, "SPEAKER_00"), (1.2345, 2.0, "SPEAKER_01"), (3599.9996, 3601.0, "SPEAKER_00"))


def test_rttm_has_ten_fields_a_line() -> None:
    assert export(result(turns=TURNS), Format.RTTM).splitlines() == [
        "SPEAKER call-1 1 0.000 1.500 <NA> <NA> SPEAKER_00 <NA> <NA>",
        "SPEAKER call-1 1 1.234 0.766 <NA> <NA> SPEAKER_01 <NA> <NA>",
        "SPEAKER call-1 1 3600.000 1.000 <NA> <NA> SPEAKER_00 <NA> <NA>",
    ]


def test_rttm_is_read_back_by_meeteval(tmp_path: Path) -> None:
    meeteval_io = pytest.importorskip("meeteval.io", reason="meeteval is not installed")
    (tmp_path / "hypothesis.rttm").write_text(export(result(turns=TURNS, key="call 1"), Format.RTTM))
    lines = list(meeteval_io.RTTM.load(tmp_path / "hypothesis.rttm"))
    assert [(float(line.begin_time), float(line.duration), line.speaker_id) for line in lines] == [
        (0.0, 1.5, "SPEAKER_00"),
        (1.234, 0.766, "SPEAKER_01"),
        (3600.0, 1.0, "SPEAKER_00"),
    ]
    assert len({line.filename for line in lines}) == 1


def file_id(key: str) -> str:
    (line,) = export(result(key=key, turns=((0.0, 1.0, "a b"),)), Format.RTTM).splitlines()
    fields = line.split(" ")
    assert len(fields) == len(line.split()) == 10
    return fields[1]


def test_rttm_keeps_a_plain_key_and_tells_other_keys_apart() -> None:
    assert file_id("folder/call-1") == "folder/call-1"
    keys = ["a b", "a\tb", "a\nb", "a_b", " a b", "", " ", "a\u2003b"]
    assert len({file_id(key) for key in keys}) == len(keys)


def test_rttm_leaves_out_a_turn_of_no_length() -> None:
    assert export(result(turns=((1.0, 1.0, "S"), (2.0, 1.0, "S"), (1.0001, 1.0002, "S"))), Format.RTTM) == ""


@pytest.mark.parametrize(
    ("format", "document"), [(Format.TXT, ""), (Format.SRT, ""), (Format.VTT, "WEBVTT\n"), (Format.RTTM, "")]
)
def test_a_silent_unit_is_an_empty_document(format: Format, document: str) -> None:
    assert export(result(), format) == document


def test_a_silent_unit_is_a_whole_json_document() -> None:
    assert UnitResult.model_validate_json(export(result(), Format.JSON)) == result()
