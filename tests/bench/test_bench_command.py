"""`volery bench` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import Cli

from volery.bench import profiles
from worker.stubs import write_wav


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.chdir(tmp_path)
    return Cli(tmp_path)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> str:
    """A profile that takes no time, among those that the package carries."""
    from bench.stubs import QUICK

    monkeypatch.setattr(profiles, "load_profile", lambda _: QUICK)
    return "quick"


def test_a_simulated_bench_leaves_receipt_tables_page_and_results(cli: Cli, quick: str, tmp_path: Path) -> None:
    run = cli("bench", "--profile", quick, "--arms", "all-on,no-prepare", "--repeats", "2", "--out", "here")
    assert run.exit_code == 0
    assert "ratio to" in run.stdout
    out = tmp_path / "here"
    receipt = json.loads((out / "receipt.json").read_text())
    assert [arm["name"] for arm in receipt["arms"]] == ["all-on", "no-prepare"]
    assert set(receipt["arms"][0]["audio_hours_per_gpu_hour"]) == {"median", "least", "most", "runs"}
    assert "all-on" in (out / "table.txt").read_text()
    assert (out / "report.html").stat().st_size > 1_000_000
    assert len(list((out / "results" / "no-prepare").glob("*.json"))) == 5


def test_results_hold_the_arms_of_the_receipt_alone(cli: Cli, quick: str, tmp_path: Path) -> None:
    results = tmp_path / "bench-out" / "results"
    for others in ("mine/notes.json", "all-off/notes.txt"):  # no bench wrote these
        (results / others).parent.mkdir(parents=True)
        (results / others).write_text("{}")
    for arms in ("all-off,LANES=1", "LANES=3,LANES=1"):
        assert cli("bench", "--profile", quick, "--arms", arms, "--repeats", "1").exit_code == 0
    assert {folder.name: len(list(folder.iterdir())) for folder in results.iterdir()} == {
        "LANES=1": 5,
        "LANES=3": 5,
        "all-off": 1,
        "mine": 1,
    }


def test_a_bench_that_cannot_begin_leaves_the_last_ones_results(cli: Cli, quick: str, tmp_path: Path) -> None:
    assert cli("bench", "--profile", quick, "--arms", "LANES=1", "--repeats", "1").exit_code == 0
    assert cli("bench", "--profile", quick, "--arms", "LANES=0", "--repeats", "1").exit_code == 3
    assert len(list((tmp_path / "bench-out" / "results" / "LANES=1").iterdir())) == 5


@pytest.mark.parametrize("written", ["no receipt", '{"arms": [{"name": ".."}, {"name": "../../mine"}]}'])
def test_nothing_beyond_results_is_deleted_for_what_a_receipt_says(
    cli: Cli, quick: str, tmp_path: Path, written: str
) -> None:
    out = tmp_path / "bench-out"
    mine = [tmp_path / "mine" / "notes.json", out / "results" / "notes.json"]
    for path in mine:
        path.parent.mkdir(parents=True)
        path.touch()
    (out / "receipt.json").write_text(written)
    assert cli("bench", "--profile", quick, "--arms", "LANES=1", "--repeats", "1").exit_code == 0
    assert all(path.exists() for path in mine)


def test_json_is_the_receipt(cli: Cli, quick: str, tmp_path: Path) -> None:
    run = cli("bench", "--profile", quick, "--arms", "all-on", "--repeats", "1", "--lanes", "1", "--json")
    printed = json.loads(run.stdout)
    assert printed == json.loads((tmp_path / "bench-out" / "receipt.json").read_text())
    assert printed["arms"][0]["ran"]["lanes"] == 1


def test_no_password_reaches_the_receipt(cli: Cli, quick: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BATCH_PIPELINE_DATABASE_URL", "postgresql://volery:hunter2@host/queue")
    run = cli("bench", "--profile", quick, "--arms", "all-on", "--repeats", "1", "--json")
    assert run.exit_code == 0
    assert "hunter2" not in run.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "name either a MANIFEST or a --profile"),
        (("--profile", "h100"), "choose one of l4"),
        (("--profile", "l4", "--arms", "everything"), "arm everything: everything is neither"),
        (("--profile", "l4", "--arms", "all-on+all-off"), "BATCH_PIPELINE_PREPARE_FLIGHT_ENABLED to two"),
        (("--profile", "l4", "--io", "fetch=soon"), "fetch=soon: write SECONDS"),
        (("nowhere.jsonl",), "there is no file or folder nowhere.jsonl"),
    ],
)
def test_what_makes_no_sense_is_said_and_nothing_runs(cli: Cli, arguments: tuple[str, ...], said: str) -> None:
    run = cli("bench", *arguments)
    assert run.exit_code == 2
    assert said in run.stderr


def test_both_a_manifest_and_a_profile_are_one_too_many(cli: Cli, tmp_path: Path) -> None:
    write_wav(tmp_path / "a.wav", 0.1)
    assert cli("bench", "a.wav", "--profile", "l4").exit_code == 2


def test_a_setting_that_makes_no_sense_ends_with_its_arm_and_nothing_runs(cli: Cli) -> None:
    run = cli("bench", "--profile", "l4", "--arms", "all-on,LANES=0")
    assert run.exit_code == 3
    assert "arm LANES=0: BATCH_PIPELINE_LANES" in run.stderr
