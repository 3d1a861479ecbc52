"""Results as subtitles, read back by small parsers of their own."""

from __future__ import annotations

import html
import itertools
import re
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from export.documents import Said, result, steady
from volery.export import Format, export

LONG = "we had a look at the figures of last year and they were better than anyone in this room had hoped for " * 5


@dataclass(frozen=True)
class Cue:
    start: float
    end: float
    lines: tuple[str, ...]
    speaker: str | None = None

    @property
    def text(self) -> str:
        return " ".join(self.lines)


def seconds(clock: str) -> float:
    hours, minutes, rest = re.fullmatch(r"(\d\d+):([0-5]\d):([0-5]\d[.,]\d{3})", clock).groups()  # type: ignore[union-attr]
    return int(hours) * 3600 + int(minutes) * 60 + float(rest.replace(",", "."))


def parse_srt(document: str) -> list[Cue]:
    cues = []
    for number, block in enumerate(document.split("\n\n") if document else [], start=1):
        index, times, *lines = block.rstrip("\n").split("\n")
        assert index == str(number)
        start, end = times.split(" --> ")
        cues.append(Cue(seconds(start), seconds(end), tuple(lines)))
    return cues


def parse_vtt(document: str) -> list[Cue]:
    head, *blocks = document.rstrip("\n").split("\n\n")
    assert head == "WEBVTT"
    return [vtt_cue(block) for block in blocks]


def vtt_cue(block: str) -> Cue:
    times, *rest = block.split("\n")
    voice, text = re.fullmatch(r"(?:<v ([^>\n]+)>)?([^<>]*)", "\n".join(rest), re.DOTALL).groups()  # type: ignore[union-attr]
    assert not re.search(r"&(?!amp;|lt;|gt;)", text)
    start, end = times.split(" --> ")
    lines = tuple(html.unescape(line) for line in text.split("\n"))
    return Cue(seconds(start), seconds(end), lines, html.unescape(voice) if voice else None)


def srt(*said: Said) -> list[Cue]:
    return parse_srt(export(result(*said), Format.SRT))


def vtt(*said: Said) -> list[Cue]:
    return parse_vtt(export(result(*said), Format.VTT))


def assert_readable(cues: list[Cue]) -> None:
    for cue in cues:
        assert 1 <= len(cue.lines) <= 2
        assert all(0 < len(line) <= 42 for line in cue.lines)
        assert 0 < cue.end - cue.start <= 7.0005
    for cue, following in itertools.pairwise(cues):
        assert cue.end <= following.start


def test_srt_reads_as_it_should() -> None:
    said = [*steady("good morning", start=3661.5), *steady("hello", "SPEAKER_01", start=3663)]
    assert export(result(*said), Format.SRT) == (
        "1\n01:01:01,500 --> 01:01:02,050\nSPEAKER_00: good morning\n\n"
        "2\n01:01:03,000 --> 01:01:03,300\nSPEAKER_01: hello\n"
    )


def test_vtt_reads_as_it_should() -> None:
    said = [*steady("good morning", start=3661.5), *steady("hello", None, start=3663)]
    assert export(result(*said), Format.VTT) == (
        "WEBVTT\n\n01:01:01.500 --> 01:01:02.050\n<v SPEAKER_00>good morning\n\n01:01:03.000 --> 01:01:03.300\nhello\n"
    )


@pytest.mark.parametrize("cues", [srt, vtt])
def test_long_speech_becomes_cues_of_readable_size_with_every_word(cues: object) -> None:
    assert callable(cues)
    found = cues(*steady(LONG, None))
    assert_readable(found)
    assert len(found) > 5
    assert " ".join(cue.text for cue in found) == LONG.strip()


def test_slow_speech_is_cut_by_time() -> None:
    found = vtt(*steady("a b c d e f g h i j k l", pace=0.9))
    assert_readable(found)
    assert len(found) == 2


def test_a_cue_ends_at_a_change_of_speaker() -> None:
    found = vtt(*steady("one two", "A"), *steady("three", "B", start=0.6), *steady("four", "A", start=0.9))
    assert [(cue.speaker, cue.text) for cue in found] == [("A", "one two"), ("B", "three"), ("A", "four")]


def test_a_cue_ends_at_a_pause() -> None:
    found = vtt(*steady("one two"), *steady("three", start=2.0))
    assert [cue.text for cue in found] == ["one two", "three"]
    assert found[0].end == pytest.approx(0.55)


def test_srt_names_a_speaker_where_the_speaker_changes_and_not_again() -> None:
    found = srt(*steady("one"), *steady("two", start=3), *steady("three", "SPEAKER_01", start=6))
    assert [cue.text for cue in found] == ["SPEAKER_00: one", "two", "SPEAKER_01: three"]


def test_a_voice_that_cuts_in_ends_the_cue_before() -> None:
    found = vtt(("long", 0.0, 4.0, "A"), ("short", 2.0, 3.0, "B"))
    assert [(cue.start, cue.end) for cue in found] == [(0.0, 2.0), (2.0, 3.0)]


def test_a_word_longer_than_a_line_is_broken() -> None:
    found = srt(("x" * 200, 0.0, 4.0, None))
    assert_readable(found)
    assert "".join(line for cue in found for line in cue.lines) == "x" * 200
    assert found[-1].end == pytest.approx(4.0)


def test_vtt_escapes_what_would_be_markup() -> None:
    said = [("Q&A", 0.0, 1.0, "<A & B>"), ("<b>", 1.0, 2.0, "<A & B>"), ("-->", 2.0, 3.0, "<A & B>")]
    document = export(result(*said), Format.VTT)
    assert "<v &lt;A &amp; B&gt;>Q&amp;A &lt;b&gt; --&gt;\n" in document
    assert vtt(*said) == [Cue(0.0, 3.0, ("Q&A <b> -->",), "<A & B>")]


def test_srt_text_never_reads_as_a_time_line() -> None:
    (cue,) = srt(("00:00:01,000", 0.0, 1.0, None), ("-->", 1.0, 2.0, None), ("00:00:02,000", 2.0, 3.0, None))
    assert cue.text == "00:00:01,000 → 00:00:02,000"


def test_line_breaks_in_words_do_not_end_a_cue() -> None:
    for cues in (srt, vtt):
        (cue,) = cues(("one\n\n2\n", 0.0, 1.0, None), ("\r\n", 1.0, 1.5, None), ("three\u2028four", 1.5, 2.0, None))
        assert cue.text == "one 2 three four"


words = st.tuples(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=60),
    st.floats(0, 60),
    st.floats(0, 60),
    st.sampled_from([None, "SPEAKER_00", "A & <B>"]),
)


@given(said=st.lists(words, max_size=40))
@settings(max_examples=200, deadline=None)
def test_whatever_is_said_the_cues_are_readable_and_in_order(said: list[Said]) -> None:
    assert_readable(srt(*said))
    assert_readable(vtt(*said))
