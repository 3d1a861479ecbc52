"""Manifests: what their lines may say, and how errors name them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from command_line import Cli, touch

from volery.units import Clip, Unit, UnitOptions


def write(cli: Cli, *lines: dict[str, Any] | str, name: str = "calls.jsonl") -> None:
    text = "".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines)
    touch(cli.folder, [name])
    (cli.folder / name).write_text(text)


def test_every_field_reaches_the_unit(cli: Cli) -> None:
    line = {
        "key": "one",
        "audio_uri": "gs://bucket/one.wav",
        "owner": "ann",
        "priority": 5,
        "clip": {"start_s": 1, "end_s": 2.5},
        "num_speakers": 3,
        "language": "de",
        "stream": "meeting",
        "place": 7,
        "privacy_generation": 9,
    }
    write(cli, line)
    assert cli("submit", "calls.jsonl").exit_code == 0
    assert cli.units() == [
        Unit(
            key="one",
            audio_uri="gs://bucket/one.wav",
            owner="ann",
            priority=5,
            clip=Clip(1.0, 2.5),
            options=UnitOptions(3, "de"),
            stream="meeting",
            place=7,
            privacy_generation=9,
        )
    ]


def test_paths_are_relative_to_the_manifest(cli: Cli) -> None:
    touch(cli.folder, ["deep/audio/a.wav"])
    write(cli, {"path": "audio/a.wav"}, {"audio_uri": "audio/elsewhere.wav"}, name="deep/calls.jsonl")
    cli("submit", "deep/calls.jsonl")
    audio = cli.folder / "deep" / "audio"
    assert [unit.audio_uri for unit in cli.units()] == [
        (audio / "a.wav").as_uri(),
        (audio / "elsewhere.wav").as_uri(),
    ]


def test_a_manifest_is_read_from_standard_input(cli: Cli) -> None:
    touch(cli.folder, ["a.wav"])
    result = cli("submit", "-", input='{"path": "a.wav"}\n\n{"audio_uri": "file:///b.wav"}\n')
    assert result.exit_code == 0
    assert [unit.audio_uri for unit in cli.units()] == [(cli.folder / "a.wav").as_uri(), "file:///b.wav"]


def test_options_hold_for_lines_that_do_not_say(cli: Cli) -> None:
    write(cli, {"audio_uri": "file:///a.wav", "owner": "ann"}, {"audio_uri": "file:///b.wav", "owner": None})
    cli("submit", "calls.jsonl", "--owner", "bob", "--clip-end", "3")
    assert [(unit.owner, unit.clip) for unit in cli.units()] == [("ann", Clip(0.0, 3.0)), ("bob", Clip(0.0, 3.0))]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ({"audio_uri": "file:///a.wav", "priority": "high"}, "priority"),
        ({"audio_uri": "file:///a.wav", "colour": "red"}, "colour"),
        ({"audio_uri": "file:///a.wav", "path": "a.wav"}, "either audio_uri or path"),
        ({"key": "a"}, "either audio_uri or path"),
        ({"path": "gone.wav"}, "gone.wav"),
        ({"audio_uri": "file:///a.wav", "clip": {"start_s": 2, "end_s": 1}}, "not after its start"),
        ({"audio_uri": "file:///a.wav", "num_speakers": 0}, "num_speakers"),
        ({"audio_uri": "file:///a.wav", "key": "two\nlines"}, "key"),
        ('{"audio_uri": "file:///a.wav", "clip": {"start_s": NaN}}', ""),
        ('{"audio_uri": ', ""),
        ('["file:///a.wav"]', "no JSON object"),
    ],
)
def test_an_error_names_file_and_line_and_nothing_is_submitted(cli: Cli, line: Any, said: str) -> None:
    write(cli, {"audio_uri": "file:///good.wav"}, line)
    result = cli("submit", "calls.jsonl")
    assert result.exit_code == 2
    assert "calls.jsonl line 2: " in result.stderr
    assert said in result.stderr
    assert result.stderr.count("\n") == 1
    assert cli.units() == []


def test_bytes_that_are_not_utf_8_are_an_error_of_their_line(cli: Cli) -> None:
    (cli.folder / "calls.jsonl").write_bytes(b'{"audio_uri": "file:///a.wav"}\n{"key": "\xff"}\n')
    assert "calls.jsonl line 2: it is not UTF-8" in cli("submit", "calls.jsonl").stderr


def test_a_byte_order_mark_is_no_error(cli: Cli) -> None:
    (cli.folder / "calls.jsonl").write_bytes(b'\xef\xbb\xbf{"audio_uri": "file:///a.wav"}\n')
    assert cli("submit", "calls.jsonl").exit_code == 0


def test_the_first_of_several_errors_is_shown_and_the_others_counted(cli: Cli) -> None:
    write(cli, "no", {"audio_uri": "file:///a.wav"}, "no", "no")
    result = cli("submit", "calls.jsonl")
    assert "line 1: " in result.stderr
    assert "2 more such lines" in result.stderr


def test_a_key_that_two_lines_give_to_different_audio_is_an_error_that_names_both(cli: Cli) -> None:
    write(
        cli, {"key": "a", "audio_uri": "file:///a.wav"}, {"audio_uri": "b"}, {"key": "a", "audio_uri": "file:///c.wav"}
    )
    for arguments in (["calls.jsonl"], ["calls.jsonl", "--replace"]):
        result = cli("submit", *arguments)
        assert result.exit_code == 2
        assert "calls.jsonl line 3: its key a is that of line 1" in result.stderr
        assert "--replace" not in result.stderr
    assert cli.units() == []


def test_two_parts_of_one_file_need_keys_of_their_own(cli: Cli) -> None:
    part = {"key": "a", "audio_uri": "file:///a.wav"}
    write(cli, {**part, "clip": {"end_s": 1}}, {**part, "clip": {"start_s": 1}})
    assert "line 2: its key a is that of line 1" in cli("submit", "calls.jsonl").stderr


def test_the_same_line_twice_is_one_unit(cli: Cli) -> None:
    write(cli, {"key": "a", "audio_uri": "file:///a.wav"}, {"key": "a", "audio_uri": "file:///a.wav", "clip": {}})
    assert cli("submit", "calls.jsonl").exit_code == 0
    assert len(cli.units()) == 1


def test_a_key_that_two_manifests_give_to_different_audio_is_an_error_that_names_both_files(cli: Cli) -> None:
    write(cli, {"key": "a", "audio_uri": "file:///a.wav"})
    write(cli, {"key": "a", "audio_uri": "file:///b.wav"}, name="more.jsonl")
    result = cli("submit", "calls.jsonl", "more.jsonl", "--replace")
    assert result.exit_code == 2
    assert "the key a is given to file:///a.wav and to file:///b.wav" in result.stderr
