"""A run is a folder of result documents, wherever in it they lie."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.gate.planted import heard, written
from volery.bench.gate.runs import RunError, read_run
from volery.units import UnitState


def test_documents_are_found_by_key_in_folders_of_any_depth(tmp_path: Path) -> None:
    written(tmp_path / "results" / "0a", heard("one", key="a/b"))
    written(tmp_path / "results" / "7f" / "deep", heard(key="c"))
    run = read_run(tmp_path)
    assert set(run.results) == {"a/b", "c"}
    assert [word.text for word in run.result("a/b").words] == ["one"]


def test_only_json_is_read(tmp_path: Path) -> None:
    written(tmp_path, heard(key="a"))
    (tmp_path / "a.txt").write_text("one")
    (tmp_path / ".a.1234.tmp").write_text("{")
    assert read_run(tmp_path).unreadable == []


def test_what_volery_results_adds_is_no_trouble_and_what_is_not_done_has_no_result(tmp_path: Path) -> None:
    written(tmp_path, heard("one", key="good"))
    document = json.loads((tmp_path / "good.json").read_text())
    (tmp_path / "good.json").write_text(json.dumps({"state": "done", "attempts": 0, **document}))
    (tmp_path / "bad.json").write_text(json.dumps({"key": "bad", "state": "rejected", "reason": "audio_empty"}))
    run = read_run(tmp_path)
    assert set(run.results) == {"good"}
    assert run.unfinished == {"bad": UnitState.REJECTED}
    assert run.unreadable == []


def test_fields_of_a_newer_version_are_no_trouble(tmp_path: Path) -> None:
    written(tmp_path, heard("one", key="a", turns=[(0.0, 1.0, "x")]))
    document = json.loads((tmp_path / "a.json").read_text())
    document["words"][0]["pitch"] = document["turns"][0]["mood"] = document["weather"] = "new"
    (tmp_path / "a.json").write_text(json.dumps(document))
    assert set(read_run(tmp_path).results) == {"a"}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("{", "Invalid JSON"),
        ("[]", "object"),
        ('{"arms": []}', "key: Field required"),
        ('{"key": "b"}', "class: Field required"),
        ('{"key": "b", "state": "asleep"}', "state"),
        ("\x00", "Invalid JSON"),
    ],
)
def test_a_document_that_cannot_be_read_is_named_with_why(tmp_path: Path, content: str, why: str) -> None:
    written(tmp_path, heard(key="a"))
    (tmp_path / "b.json").write_text(content)
    run = read_run(tmp_path)
    assert set(run.results) == {"a"}
    [unreadable] = run.unreadable
    assert unreadable.path == tmp_path / "b.json"
    assert why in unreadable.why


def test_a_folder_called_like_a_document_and_a_link_to_nowhere_are_named(tmp_path: Path) -> None:
    written(tmp_path, heard(key="a"))
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "link.json").symlink_to("nowhere")
    assert {one.path.name for one in read_run(tmp_path).unreadable} == {"folder.json", "link.json"}


def test_two_documents_of_one_unit_are_refused_by_name(tmp_path: Path) -> None:
    written(tmp_path / "all-on", heard(key="a"))
    written(tmp_path / "all-off", heard(key="a"))
    with pytest.raises(RunError, match=r"all-off/a\.json and .*all-on/a\.json are both of the unit a: .*one arm"):
        read_run(tmp_path)


def test_a_folder_without_results_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="holds no result"):
        read_run(tmp_path)
    with pytest.raises(RunError, match="there is no folder"):
        read_run(tmp_path / "nowhere")
    (tmp_path / "receipt.json").write_text("{}")
    with pytest.raises(RunError, match=r"holds no result; .*receipt\.json is none: key: Field required"):
        read_run(tmp_path)


def test_a_document_that_changes_meanwhile_is_named(tmp_path: Path) -> None:
    run = read_run(written(tmp_path, heard(key="a")))
    (tmp_path / "a.json").unlink()
    with pytest.raises(RunError, match=r"a\.json changed while it was compared"):
        run.result("a")
