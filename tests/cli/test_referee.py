"""`volery referee` over results that are there: what it reads, in which order it shows units, and its exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest
from command_line import Cli, result_of

from volery.artifacts import open_results
from volery.cli import published
from volery.referee import follow as following
from volery.referee import opening
from volery.referee.cases import Case, Judgement, RefereeError, RefereeReason
from volery.sampling import sampled
from volery.settings import Settings


class Scripted:
    """A referee whose disagreement is what a unit's key ends in, and which knows no audio of `gone`."""

    def __init__(self) -> None:
        self.cases: list[Case] = []
        self.closed = False
        self.broken = False

    def __enter__(self) -> Scripted:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.closed = True

    def judge(self, case: Case, deadline_s: float) -> Judgement:
        self.cases.append(case)
        if self.broken:
            raise RefereeError(RefereeReason.NOT_STARTED, "the package jiwer is not installed")
        if case.key.startswith("gone"):
            raise RefereeError(RefereeReason.AUDIO, f"{case.key}: audio_missing: there is no such file")
        disagreement = float(case.key.rpartition("-")[2])
        edits = round(10 * disagreement)
        return Judgement(case.key, min(disagreement, 1.0), 0.9, disagreement > 0.25, edits, 10, "en", "cpu", 1.0)


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Scripted:
    referee = Scripted()

    def open_referee(settings: Settings, *, in_worker: bool) -> Scripted:
        assert not in_worker
        return referee

    monkeypatch.setattr(opening, "open_referee", open_referee)
    return referee


Write = Callable[..., Path]


@pytest.fixture
def write(cli: Cli) -> Write:
    """Write results of these keys into a folder."""

    def written(*keys: str, folder: str = "results") -> Path:
        (cli.folder / folder).mkdir(exist_ok=True)
        for key in keys:
            (cli.folder / folder / f"{key}.json").write_bytes(result_of(key).to_json())
        return cli.folder / folder

    return written


def test_units_are_shown_worst_first(cli: Cli, scripted: Scripted, write: Write) -> None:
    results = write("a-0.1", "b-0.7", "c-0.3", "d-0.0")
    shown = cli("referee", str(results), "-n", "3").stdout
    places = [shown.index(key) for key in ("b-0.7", "c-0.3", "a-0.1")]
    assert places == sorted(places)
    assert "d-0.0" not in shown
    assert "11 edits of 40 words" in shown
    assert scripted.closed


def test_json_has_every_figure_and_no_words(cli: Cli, scripted: Scripted, write: Write) -> None:
    done = cli("referee", str(write("a-0.1", "b-0.7")), "--json")
    document: dict[str, Any] = json.loads(done.stdout)
    assert done.exit_code == 0
    assert [unit["key"] for unit in document["units"]] == ["b-0.7", "a-0.1"]
    assert document["criteria"][0]["figure"] == pytest.approx(0.4)
    assert "good" not in done.stdout


def test_the_report_is_a_page_of_its_own_and_quotes_keys_safely(cli: Cli, scripted: Scripted, write: Write) -> None:
    cli("referee", str(write("<b>-0.7")), "--report", "referee.html", "--fail-above", "0.5")
    page = (cli.folder / "referee.html").read_text(encoding="utf-8")
    assert "&lt;b&gt;-0.7" in page
    assert "<b>-0.7" not in page
    assert "failed" in page
    assert "http" not in page


@pytest.mark.parametrize(("most", "code"), [("0.4", 0), ("0.39", 7)])
def test_the_exit_code_is_the_gates_where_a_figure_may_fail(
    cli: Cli, scripted: Scripted, write: Write, most: str, code: int
) -> None:
    done = cli("referee", str(write("a-0.1", "b-0.7")), "--fail-above", most)
    assert done.exit_code == code
    assert ("the results fail: disagreement" in done.stdout) == (code == 7)


def test_json_says_of_nothing_that_it_passed_where_nothing_could_fail(
    cli: Cli, scripted: Scripted, write: Write
) -> None:
    results = str(write("a-0.1", "gone"))
    unbounded = json.loads(cli("referee", results, "--json").stdout)
    assert unbounded["passed"] is None
    assert {one["passed"] for one in unbounded["criteria"]} == {None}
    bounded = json.loads(cli("referee", results, "--json", "--fail-above", "0.5").stdout)
    assert bounded["passed"] is False
    assert [one["passed"] for one in bounded["criteria"]] == [True, None, False]


def test_a_unit_that_cannot_be_judged_is_named_and_shows_in_the_exit_code(
    cli: Cli, scripted: Scripted, write: Write
) -> None:
    results = str(write("a-0.1", "gone"))
    done = cli("referee", results)
    assert done.exit_code == 1
    assert "gone: audio_missing" in done.stdout
    assert cli("referee", results, "--fail-above", "0.9").exit_code == 7


def test_documents_that_are_no_results_are_named_and_counted(cli: Cli, scripted: Scripted, write: Write) -> None:
    results = write("a-0.1")
    for name, content in {"cut.json": '{"key": "cut", "wor', "odd.json": '{"key": "odd", "language": 5}'}.items():
        (results / name).write_text(content)
    done = cli("referee", str(results))
    assert done.exit_code == 1
    said = " ".join(done.stdout.split())
    assert "cut.json is no result" in said
    assert "odd.json is no result" in said
    failed = cli("referee", str(results), "--fail-above", "0.9", "--json")
    assert failed.exit_code == 7
    assert len(json.loads(failed.stdout)["not_judged"]) == 2


def test_a_named_document_that_is_no_result_is_counted_like_one_in_a_folder(
    cli: Cli, scripted: Scripted, write: Write
) -> None:
    write("a-0.1")
    (cli.folder / "broken.json").write_text("{")
    done = cli("referee", "results", "broken.json")
    assert (done.exit_code, "broken.json is no result: it is not JSON" in done.stdout) == (1, True)


def test_more_words_than_were_said_all_count(cli: Cli, scripted: Scripted, write: Write) -> None:
    done = cli("referee", str(write("a-0.0", "b-5.0")), "--fail-above", "0.9")
    assert "50 edits of 20 words" in done.stdout
    assert done.exit_code == 7


def test_models_that_cannot_be_had_end_the_command_at_once(cli: Cli, scripted: Scripted, write: Write) -> None:
    scripted.broken = True
    done = cli("referee", str(write("a-0.1", "b-0.7")))
    assert done.exit_code == 3
    assert "jiwer is not installed" in done.stderr
    assert len(scripted.cases) == 1


def test_documents_and_folders_are_judged_together_each_unit_once(cli: Cli, scripted: Scripted, write: Write) -> None:
    write("a-0.1", folder="one")
    write("b-0.7", "c-0.3", folder="two")
    cli("referee", "one/a-0.1.json", "two")
    assert sorted(case.key for case in scripted.cases) == ["a-0.1", "b-0.7", "c-0.3"]
    done = cli("referee", "one", "one/a-0.1.json")
    assert done.exit_code == 2
    assert "a-0.1" in done.stderr


def test_a_case_has_the_audio_of_its_document_and_the_language_that_is_named(
    cli: Cli, scripted: Scripted, write: Write
) -> None:
    folder = write("a-0.1")
    cli("referee", str(folder), "--language", "de")
    [case] = scripted.cases
    assert case.unit.audio_uri == "file:///a-0.1.wav"
    assert case.unit.options.language == "de"
    assert case.artifact == (folder / "a-0.1.json").as_uri()


def test_results_that_volery_wrote_are_read_and_units_without_one_are_left_out(cli: Cli, scripted: Scripted) -> None:
    cli.finish("a-0.1")
    cli.reject("bad")
    cli("results", "-o", "out", "--state", "done,rejected")
    assert cli("referee", "out").exit_code == 0
    assert [case.key for case in scripted.cases] == ["a-0.1"]


def test_artifacts_in_the_cloud_are_fetched_first(
    cli: Cli, scripted: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = open_results((cli.folder / "bucket").as_uri())
    bucket.write("a" * 32, result_of("a-0.1").to_json())
    monkeypatch.setattr(published, "open_results", lambda url, _: {"gs://bucket/volery": bucket}[url])
    assert cli("referee", "gs://bucket/volery").exit_code == 0
    assert [case.key for case in scripted.cases] == ["a-0.1"]


def test_a_sample_is_the_one_that_workers_audit(cli: Cli, scripted: Scripted, write: Write) -> None:
    keys = [f"{n}-0.1" for n in range(40)]
    cli("referee", str(write(*keys)), "--sample-rate", "0.3")
    assert {case.key for case in scripted.cases} == {key for key in keys if sampled(key, 0.3, "referee")}


def test_following_audits_the_share_that_is_asked_for(
    cli: Cli, scripted: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    followed: list[tuple[float, object, float]] = []

    async def follow(settings: Settings, referee: object, interval_s: float) -> None:
        followed.append((settings.referee.referee_sample_rate, referee, interval_s))

    monkeypatch.setattr(following, "follow", follow)
    assert cli("referee", "--follow", "--sample-rate", "0.5", "--interval", "5").exit_code == 0
    assert followed == [(0.5, scripted, 5.0)]


def test_following_nothing_is_refused(cli: Cli, scripted: Scripted) -> None:
    done = cli("referee", "--follow")
    assert done.exit_code == 3
    assert "BATCH_PIPELINE_REFEREE_SAMPLE_RATE" in done.stderr


def test_a_referee_that_could_not_follow_is_told_at_once(
    cli: Cli, scripted: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BATCH_PIPELINE_REFEREE_MODEL", "/nowhere/model")
    done = cli("referee", "--follow", "--sample-rate", "1")
    assert done.exit_code == 3
    assert "/nowhere/model" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "--follow"),
        (("results", "--follow"), "--follow"),
        (("nowhere",), "no folder"),
        (("broken.json",), "is no result"),
        (("results", "--fail-above", "nan"), "--fail-above"),
        (("results", "--sample-rate", "0"), "no unit is in a sample of 0"),
        (("http://example.org/results",), "only folders, documents, file:///… and gs://bucket/… can be read"),
        (("--follow", "--json"), "--json goes with RESULTS"),
        (("--follow", "-n", "3"), "-n goes with RESULTS"),
        (("results", "--interval", "5"), "--interval goes with --follow alone"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_loaded(
    cli: Cli, scripted: Scripted, write: Write, arguments: tuple[str, ...], said: str
) -> None:
    write("a-0.1")
    (cli.folder / "broken.json").write_text('{"key": "a", "words": ["confidential"]}')
    done = cli("referee", *arguments)
    assert done.exit_code == 2
    assert said in done.stderr
    assert "confidential" not in done.stderr
    assert scripted.cases == []
