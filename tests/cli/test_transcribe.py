"""`volery transcribe`: names of what it writes, and the real thing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import Cli, touch

from volery.cli.transcribe import output_names
from volery.export import Format
from volery.units import Unit


def names(*paths: str, output: str = "out") -> list[str]:
    units = [Unit(key=path, audio_uri=Path(path).absolute().as_uri()) for path in paths]
    return output_names(units, [Format.SRT, Format.TXT], Path(output))


def test_a_file_gives_its_name() -> None:
    assert names("calls/my talk.wav", "other.mp3") == ["my talk", "other"]


def test_files_alike_but_for_their_extension_keep_it() -> None:
    assert names("talk.wav", "talk.mp3") == ["talk.wav", "talk.mp3"]


def test_files_of_the_same_name_are_numbered() -> None:
    assert names("a/talk.wav", "b/talk.wav", "c/talk.wav") == ["talk.wav", "talk.wav-2", "talk.wav-3"]


def test_names_that_differ_in_case_alone_do_not_meet() -> None:
    assert names("a/Talk.wav", "b/talk.wav") == ["Talk.wav", "talk.wav-2"]


def test_no_export_replaces_an_input(cli: Cli) -> None:
    assert names("out/talk.srt", output="out") == ["talk.srt"]
    (cli.folder / "link").symlink_to(cli.folder, target_is_directory=True)
    assert names("talk.srt", output="link") == ["talk.srt"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("talk.wav", "--format", "srt,vtt"),
        ("talk.wav", "talk.mp3", "--format", "srt"),
        ("talk.wav", "--format", "docx"),
        ("gone.wav",),
        ("talk.wav", "-o", "talk.wav"),
    ],
    ids=" ".join,
)
def test_what_cannot_work_is_said_before_models_load(cli: Cli, arguments: tuple[str, ...]) -> None:
    touch(cli.folder, ["talk.wav", "talk.mp3"])
    result = cli("transcribe", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")


@pytest.mark.models
@pytest.mark.slow
def test_files_are_transcribed_and_those_that_fail_are_named(cli: Cli, conversation: Path) -> None:
    (cli.folder / "broken.wav").write_bytes(b"no audio at all")
    ran = cli.program("transcribe", str(conversation), "broken.wav", "-o", "out", "--models", "embedded")
    assert (ran.returncode, ran.stdout) == (1, "")
    [line] = [line for line in ran.stderr.splitlines() if line.startswith("volery: ")]
    assert "broken: audio_undecodable: " in line
    assert {path.name for path in (cli.folder / "out").iterdir()} == {f"sample.{format}" for format in Format}
    document = json.loads((cli.folder / "out" / "sample.json").read_text())
    assert document["class"] == "speech"
    assert len(document["speakers"]) == 2
    assert not (cli.folder / "store").exists()


@pytest.mark.models
@pytest.mark.slow
def test_text_is_printed_where_no_folder_is_named(cli: Cli, conversation: Path) -> None:
    ran = cli.program("transcribe", str(conversation), "--models", "embedded", "--num-speakers", "1")
    assert ran.returncode == 0
    assert ran.stdout.startswith("[00:0")
    assert "New Jersey" in ran.stdout
    assert "SPEAKER_00: " in ran.stdout
    assert "SPEAKER_01: " not in ran.stdout
