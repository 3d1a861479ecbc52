"""File names for keys."""

from __future__ import annotations

from pathlib import PurePosixPath, PureWindowsPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volery.export import Format, file_name
from volery.export.names import digest

ODD = [
    *(
        "../x",
        "..",
        ".",
        "",
        "a/b",
        "a\\b",
        "/etc/passwd",
        "C:x",
        "a:b",
        "a b",
        "a\0b",
        "a\nb",
        ".hidden",
        "-flag",
        "~",
    ),
    *(
        "CON",
        "con",
        "nul.txt",
        "COM1",
        "LPT9.a.b",
        "AUX",
        "PRN",
        "a.",
        "a ",
        "é",
        "e\u0301",
        "夏",
        "x" * 101,
        "x" * 5000,
    ),
    *("a_b", "a-b", "x", "\ud800"),
]


@pytest.mark.parametrize("key", ["call-1", "2024-05-01_0930.wav", "a", "A.b.c", "x" * 100, "CONSOLE", "console.log"])
def test_a_plain_key_is_its_own_name(key: str) -> None:
    assert file_name(key, Format.SRT) == f"{key}.srt"


@pytest.mark.parametrize("key", ODD)
def test_a_name_is_never_a_path_nor_a_device(key: str) -> None:
    name = file_name(key, Format.JSON)
    assert PurePosixPath(name).name == name
    assert PureWindowsPath(name).name == name
    assert not PureWindowsPath(name).is_reserved()
    assert name.isascii()
    assert name.isprintable()
    assert not name.startswith((".", "-"))
    assert len(name) <= 110


def test_no_two_keys_share_a_name() -> None:
    keys = [*ODD, *(file_name(key, "json").removesuffix(".json") for key in ODD), "a.json", "a"]
    assert len({file_name(key, Format.JSON) for key in set(keys)}) == len(set(keys))


def test_a_key_that_looks_like_anothers_name_gets_one_of_its_own() -> None:
    taken = file_name("a/b", Format.TXT)
    assert taken == f"a_b-{digest('a/b')}.txt"
    assert file_name(taken.removesuffix(".txt"), Format.TXT) != taken


@given(keys=st.sets(st.text(alphabet="aA._-/ 0f", max_size=16), min_size=2, max_size=20))
def test_short_keys_do_not_collide(keys: set[str]) -> None:
    assert len({file_name(key, Format.RTTM) for key in keys}) == len(keys)
