"""What `volery results` prints and writes."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest
from command_line import Cli, result_of

from volery.cli.exits import OutputError
from volery.cli.formats import write_file
from volery.export import Format, export


def test_a_done_unit_is_one_object_with_its_state_and_its_result(cli: Cli) -> None:
    cli.finish("talk")
    result = cli("results", "--key", "talk", "--format", "json")
    document = json.loads(result.stdout)
    assert (document["key"], document["state"], document["attempts"]) == ("talk", "done", 0)
    assert "reason" not in document
    assert "error" not in document
    assert [word["text"] for word in document["words"]] == ["good", "morning"]
    assert document.items() >= json.loads(result_of("talk").to_json()).items()
    assert result.stderr == ""


def test_a_rejected_unit_is_one_object_with_its_reason(cli: Cli) -> None:
    cli.reject("bad")
    result = cli("results", "--key", "bad", "--format", "json")
    assert result.exit_code == 0
    assert json.loads(result.stdout) == {
        "key": "bad",
        "state": "rejected",
        "reason": "audio_empty",
        "error": "it holds no bytes",
        "attempts": 0,
        "owner": "default",
    }


def test_a_waiting_unit_is_one_object(cli: Cli) -> None:
    cli.add("waiting")
    assert json.loads(cli("results", "--key", "waiting").stdout)["state"] == "ready"


def test_waiting_units_are_lines_that_say_whose_each_is(cli: Cli) -> None:
    for owner, uri in (("support", "file:///a.wav"), ("sales", "file:///b.wav")):
        assert cli("submit", uri, "--owner", owner).exit_code == 0
    lines = cli("results", "--state", "ready").stdout.splitlines()
    assert [json.loads(line)["owner"] for line in lines] == ["support", "sales"]


def test_an_unknown_key_is_an_error(cli: Cli) -> None:
    cli("db", "upgrade")
    result = cli("results", "--key", "nobody")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "nobody" in result.stderr


def test_all_done_units_are_json_lines_in_order(cli: Cli) -> None:
    cli.finish("b", "a")
    cli.add("waiting")
    lines = cli("results").stdout.splitlines()
    assert [json.loads(line)["key"] for line in lines] == ["b", "a"]


def test_other_states_can_be_asked_for(cli: Cli) -> None:
    cli.reject("bad")
    cli.finish("good")
    lines = cli("results", "--state", "rejected,done").stdout.splitlines()
    assert [json.loads(line)["key"] for line in lines] == ["bad", "good"]
    assert cli("results", "--state", "broken").exit_code == 2


def test_a_format_is_printed_as_the_exporter_makes_it(cli: Cli) -> None:
    cli.finish("talk")
    assert cli("results", "--key", "talk", "--format", "srt").stdout == export(result_of("talk"), Format.SRT)


def test_texts_of_several_units_are_printed_below_their_keys(cli: Cli) -> None:
    cli.finish("first", "second")
    text = export(result_of("first"), Format.TXT)
    assert cli("results", "--format", "txt").stdout == f"# first\n\n{text}\n# second\n\n{text}\n"
    assert cli("results", "--key", "first", "--format", "txt").stdout == text


@pytest.mark.parametrize("format", ["srt", "vtt"])
def test_subtitles_of_several_units_are_not_printed_as_if_they_were_one_file(cli: Cli, format: str) -> None:
    cli.finish("first", "second")
    result = cli("results", "--format", format)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "--key" in result.stderr
    assert cli("results", "--format", format, "-o", "out").exit_code == 0


def test_a_unit_without_a_result_has_no_subtitles(cli: Cli) -> None:
    cli.reject("bad")
    result = cli("results", "--key", "bad", "--format", "srt")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "bad has no result: it is rejected: audio_empty" in result.stderr


def test_every_format_is_written_to_a_folder_under_safe_names(cli: Cli) -> None:
    cli.finish("talk", "../up")
    assert cli("results", "-o", "out", "--format", "json,txt,srt,vtt,rttm").exit_code == 0
    written = sorted(path.name for path in (cli.folder / "out").iterdir())
    assert len(written) == 10
    assert "talk.vtt" in written
    assert json.loads((cli.folder / "out" / "talk.json").read_text())["state"] == "done"
    assert sorted(path.name for path in cli.folder.iterdir()) == ["out", "store"]


def test_several_formats_need_a_folder(cli: Cli) -> None:
    assert cli("results", "--format", "json,txt").exit_code == 2
    result = cli("results", "--format", "docx")
    assert result.exit_code == 2
    assert "docx" in result.stderr


def test_a_result_that_is_gone_is_named_and_the_others_are_printed(cli: Cli) -> None:
    cli.finish("gone", "here")
    artifact = cli.records()[0].artifact
    assert artifact is not None
    (cli.folder / "store" / "artifacts" / artifact).unlink()
    result = cli("results")
    assert result.exit_code == 4
    assert json.loads(result.stdout)["key"] == "here"
    assert "the result of gone" in result.stderr


DAMAGED = [
    b"",
    b"{}",
    b"[]",
    b'"s"',
    b'{"key": "damaged", "cla',
    b"\x00\xff\xfe junk",
    b'{"key": "other", "class": "speech"}',
    b"[" * 99999,
]


@pytest.mark.parametrize("content", DAMAGED, ids=range(len(DAMAGED)))
@pytest.mark.parametrize("formats", ["json", "txt,json"])
def test_a_result_that_is_damaged_is_named_and_the_others_are_written(cli: Cli, content: bytes, formats: str) -> None:
    cli.finish("damaged", "whole")
    artifact = cli.records()[0].artifact
    assert artifact is not None
    (cli.folder / "store" / "artifacts" / artifact).write_bytes(content)
    result = cli("results", "-o", "out", "--format", formats)
    assert result.exit_code == 4
    assert f"the result of damaged: {artifact} is damaged" in " ".join(result.stderr.split())
    assert {path.stem for path in (cli.folder / "out").iterdir()} == {"whole"}


def test_a_result_says_nothing_of_its_units_state(cli: Cli) -> None:
    cli.finish("talk")
    artifact = cli.records()[0].artifact
    path = cli.folder / "store" / "artifacts" / str(artifact)
    path.write_text(json.dumps({**json.loads(path.read_text()), "state": "dead", "attempts": 9}))
    document = json.loads(cli("results", "--key", "talk").stdout)
    assert (document["state"], document["attempts"]) == ("done", 0)


def test_an_output_folder_without_room_is_said_to_be_and_keeps_no_half_file(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_text(path: Path, text: str, **_: object) -> None:
        path.write_bytes(text.encode()[:10])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    cli.finish("first", "second")
    monkeypatch.setattr(Path, "write_text", write_text)
    result = cli("results", "-o", "out")
    assert result.exit_code == 3
    assert "first.json: No space left on device" in " ".join(result.stderr.split())
    assert list((cli.folder / "out").iterdir()) == []


def test_a_device_without_room_is_left_where_it_is() -> None:
    with pytest.raises(OutputError, match="No space left on device"):
        write_file(Path("/dev/full"), "text")
    assert Path("/dev/full").is_char_device()
