"""What commands print for a person."""

from __future__ import annotations

import json

import pytest
from command_line import Cli, result_of
from rich.text import Text

from volery.cli.output import messages, tables

_ESCAPES = "\x1b]0;owned\x07\x1b[2J\x9b2J\b\r\u202e"


@pytest.mark.parametrize("console", [messages, tables])
def test_no_text_can_steer_the_terminal(
    console: type, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    console().print(Text(f"before{_ESCAPES}after\tand\nanother line", "red"))
    out, err = capsys.readouterr()
    printed = out + err
    assert printed.count("\x1b") == printed.count("\x1b[31m") + printed.count("\x1b[0m") > 0
    assert not set("\x07\x9b\b\r") & set(printed)
    assert "after" in printed
    assert "another line" in printed


@pytest.mark.parametrize("code", [*range(0x202A, 0x202F), *range(0x2066, 0x206A)])
def test_no_text_can_be_shown_in_another_order(code: int, capsys: pytest.CaptureFixture[str]) -> None:
    tables().print(Text(f"one{chr(code)}two"))
    assert capsys.readouterr().out == "one\ufffdtwo\n"


def test_words_from_right_to_left_are_shown_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    tables().print(Text("شكرا \u200fתודה\u200e"))
    assert capsys.readouterr().out == "شكرا \u200fתודה\u200e\n"


def test_keys_of_others_documents_are_shown_without_their_control_characters(cli: Cli) -> None:
    for run in ("base", "candidate"):
        document = json.loads(result_of("plain").to_json())
        document["key"] = f"unit-{run}{_ESCAPES}"
        folder = cli.folder / run
        folder.mkdir()
        (folder / "one.json").write_text(json.dumps(document))
    shown = cli("gate", "base", "candidate")
    assert shown.exit_code == 7
    assert "unit-base\ufffd]0;owned" in shown.stdout
    assert not set("\x1b\u202e") & set(shown.stdout)
