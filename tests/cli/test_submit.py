"""What `volery submit` makes of its arguments."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from command_line import Cli, touch

from volery.units import Clip, UnitState


def names(cli: Cli) -> list[str]:
    return [unit.audio_uri.rpartition("/")[2] for unit in cli.units()]


def test_a_file_becomes_a_unit_with_an_absolute_uri_and_its_key_is_printed(cli: Cli) -> None:
    touch(cli.folder, ["talk one.wav"])
    result = cli("submit", "talk one.wav")
    uri = (cli.folder / "talk one.wav").as_uri()
    key = f"talk one.wav-{hashlib.sha256(uri.encode()).hexdigest()[:8]}"
    assert (result.exit_code, result.stdout) == (0, f"{key}\n")
    assert [(unit.key, unit.audio_uri) for unit in cli.units()] == [(key, uri)]


def test_a_folder_is_searched_for_audio_and_what_is_skipped_is_said(cli: Cli) -> None:
    touch(cli.folder, ["calls/b/two.MP3", "calls/a/one.wav", "calls/notes.txt", "calls/a/._one.wav"])
    result = cli("submit", "calls")
    assert names(cli) == ["one.wav", "two.MP3"]
    assert "2 files" in result.stderr
    assert "calls/notes.txt" in result.stderr


def test_hidden_folders_are_not_searched(cli: Cli) -> None:
    touch(cli.folder, ["calls/one.wav", "calls/.trash/two.wav", ".named/three.wav"])
    cli("submit", "calls", ".named")
    assert names(cli) == ["one.wav", "three.wav"]


def test_a_file_that_is_named_is_taken_whatever_it_is_called(cli: Cli) -> None:
    touch(cli.folder, ["dump.bin"])
    assert cli("submit", "dump.bin").exit_code == 0
    assert names(cli) == ["dump.bin"]


def test_a_glob_is_expanded_in_order(cli: Cli) -> None:
    touch(cli.folder, ["b.wav", "a.wav", "deep/er/c.wav", "d.txt"])
    cli("submit", "*.wav", "deep/**/*.wav")
    assert names(cli) == ["a.wav", "b.wav", "c.wav"]


def test_a_file_whose_name_looks_like_a_glob_is_that_file(cli: Cli) -> None:
    touch(cli.folder, ["take[1].wav", "take1.wav"])
    cli("submit", "take[1].wav")
    assert names(cli) == ["take%5B1%5D.wav"]


@pytest.mark.parametrize("missing", ["gone.wav", "gone*.wav", "gone/folder"])
def test_a_path_that_does_not_exist_is_named_and_nothing_is_submitted(cli: Cli, missing: str) -> None:
    touch(cli.folder, ["here.wav"])
    result = cli("submit", "here.wav", missing)
    assert result.exit_code == 2
    assert missing in result.stderr
    assert cli.units() == []


@pytest.mark.parametrize("uri", ["file:///gone/talk.wav", "gs://bucket/talk.wav"])
def test_a_uri_is_taken_as_it_is(cli: Cli, uri: str) -> None:
    assert cli("submit", uri).exit_code == 0
    assert [unit.audio_uri for unit in cli.units()] == [uri]


def test_a_folder_without_audio_is_an_error(cli: Cli) -> None:
    touch(cli.folder, ["texts/a.txt"])
    result = cli("submit", "texts")
    assert result.exit_code == 2
    assert "no audio in texts" in result.stderr


def test_the_same_audio_under_the_same_key_is_reported_as_unchanged(cli: Cli) -> None:
    touch(cli.folder, ["talk.wav"])
    cli("submit", "talk.wav")
    result = cli("submit", "talk.wav")
    assert result.exit_code == 0
    assert "1 unchanged" in result.stderr
    assert len(cli.units()) == 1


def test_a_key_that_other_audio_has_is_refused_unless_it_is_replaced(cli: Cli) -> None:
    touch(cli.folder, ["old.wav", "new.wav"])
    cli("submit", "old.wav", "--key", "talk")
    refused = cli("submit", "new.wav", "--key", "talk")
    assert refused.exit_code == 2
    assert "talk" in refused.stderr
    assert "--replace" in refused.stderr
    assert names(cli) == ["old.wav"]
    replaced = cli("submit", "new.wav", "--key", "talk", "--replace")
    assert "1 replaced" in replaced.stderr
    assert names(cli) == ["new.wav"]


def test_a_key_is_for_a_single_unit(cli: Cli) -> None:
    touch(cli.folder, ["a.wav", "b.wav"])
    result = cli("submit", "a.wav", "b.wav", "--key", "both")
    assert result.exit_code == 2
    assert cli.units() == []


def test_options_reach_the_unit(cli: Cli) -> None:
    touch(cli.folder, ["talk.wav"])
    cli(
        *("submit", "talk.wav", "--owner", "ann", "--priority", "-3", "--num-speakers", "2", "--language", "en"),
        *("--clip-start", "1.5", "--clip-end", "4"),
    )
    [unit] = cli.units()
    assert (unit.owner, unit.priority, unit.clip) == ("ann", -3, Clip(1.5, 4.0))
    assert (unit.options.num_speakers, unit.options.language) == (2, "en")


def test_clips_of_one_file_have_keys_of_their_own(cli: Cli) -> None:
    touch(cli.folder, ["talk.wav"])
    cli("submit", "talk.wav")
    cli("submit", "talk.wav", "--clip-end", "5")
    cli("submit", "talk.wav", "--clip-start", "5")
    assert len({unit.key for unit in cli.units()}) == 3


@pytest.mark.parametrize(
    ("option", "value"), [("--num-speakers", "0"), ("--clip-end", "0"), ("--clip-start", "nan"), ("--owner", "")]
)
def test_an_option_that_makes_no_sense_is_a_usage_error(cli: Cli, option: str, value: str) -> None:
    touch(cli.folder, ["talk.wav"])
    assert cli("submit", "talk.wav", option, value).exit_code == 2
    assert cli.units() == []


def test_a_stream_numbers_its_units_in_the_order_given(cli: Cli) -> None:
    touch(cli.folder, ["z.wav", "a.wav"])
    cli("submit", "z.wav", "a.wav", "--stream", "meeting")
    assert [(unit.stream, unit.place, unit.audio_uri[-5:]) for unit in cli.units()] == [
        ("meeting", 0, "z.wav"),
        ("meeting", 1, "a.wav"),
    ]


def test_json_is_one_object_and_nothing_else(cli: Cli) -> None:
    touch(cli.folder, ["calls/a.wav", "calls/b.txt"])
    result = cli("submit", "calls", "--json")
    document = json.loads(result.stdout)
    assert document == {
        "new": 1,
        "replaced": 0,
        "unchanged": 0,
        "keys": [cli.units()[0].key],
        "skipped": [str(Path("calls/b.txt"))],
    }


def test_a_name_that_is_not_utf_8_can_be_submitted(cli: Cli) -> None:
    (cli.folder / "calls").mkdir()
    try:
        (cli.folder / "calls" / b"caf\xe9.wav".decode(errors="surrogateescape")).write_bytes(b"")
    except OSError:
        pytest.skip("this file system takes only UTF-8 names")
    assert cli("submit", "calls").exit_code == 0
    assert [unit.audio_uri.rpartition("/")[2] for unit in cli.units()] == ["caf%E9.wav"]


def test_thousands_of_files_are_submitted_at_once(cli: Cli) -> None:
    touch(cli.folder, [f"calls/{number}.wav" for number in range(3000)])
    result = cli("submit", "calls")
    assert "3000 submitted: 3000 new" in result.stderr
    records = cli.records()
    assert len(records) == 3000
    assert {record.state for record in records} == {UnitState.READY}
