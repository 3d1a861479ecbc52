"""`volery gate`: reads what other commands wrote, and its exit code is the verdict."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from command_line import Cli

from bench.gate.planted import heard, written

HUNDRED = " ".join(f"w{number}" for number in range(100))
OTHERWISE = HUNDRED.replace("w10 w11", "x10 x11")


@pytest.fixture
def changed(cli: Cli) -> tuple[str, str]:
    """A base, and a candidate with two words of a hundred replaced and one unit that is the same."""
    base = written(cli.folder / "base", heard(HUNDRED, key="long"), heard(key="silent"))
    candidate = written(cli.folder / "candidate", heard(OTHERWISE, key="long"), heard(key="silent"))
    return str(base), str(candidate)


def report(cli: Cli, *arguments: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(cli("gate", *arguments, "--json").stdout)
    return document


def test_the_same_results_pass(cli: Cli, changed: tuple[str, str]) -> None:
    result = cli("gate", changed[0], changed[0])
    assert result.exit_code == 0
    assert "the candidate passes" in result.stdout
    assert cli("gate", changed[0], changed[0], "--exact").exit_code == 0


def test_a_candidate_that_differs_too_much_fails_and_is_shown(cli: Cli, changed: tuple[str, str]) -> None:
    result = cli("gate", *changed)
    assert result.exit_code == 7
    assert "the candidate fails: word edit rate" in result.stdout
    assert "long: 2 edits of 100 words" in result.stdout
    assert "w10 w11" in result.stdout
    assert "x10 x11" in result.stdout
    assert "~~~ ~~~" in result.stdout


def test_thresholds_are_options(cli: Cli, changed: tuple[str, str]) -> None:
    assert cli("gate", *changed, "--max-word-edit-rate", "0.02").exit_code == 0
    assert cli("gate", *changed, "--max-word-edit-rate", "0.019").exit_code == 7


@pytest.mark.parametrize(
    ("option", "criterion"),
    [
        ("--max-units", "units lost or added"),
        ("--max-classes", "result class changes"),
        ("--max-word-edit-rate", "word edit rate"),
        ("--min-speaker-agreement", "speaker agreement"),
        ("--max-speech-lost", "speech lost"),
        ("--max-silent-words", "words on silent units"),
        ("--max-confidence-drift", "confidence drift"),
    ],
)
def test_every_option_is_the_threshold_of_its_criterion(
    cli: Cli, changed: tuple[str, str], option: str, criterion: str
) -> None:
    default = {one["name"]: one["threshold"] for one in report(cli, *changed)["criteria"]}
    asked = {one["name"]: one["threshold"] for one in report(cli, *changed, option, "1")["criteria"]}
    assert {name for name in asked if asked[name] != default[name]} == {criterion}
    assert asked[criterion] == 1


@pytest.mark.parametrize("value", ["inf", "nan"])
@pytest.mark.parametrize(
    "option",
    [
        "--max-word-edit-rate",
        "--min-speaker-agreement",
        "--max-speech-lost",
        "--speech-tolerance",
        "--max-confidence-drift",
    ],
)
def test_a_threshold_is_a_number(cli: Cli, changed: tuple[str, str], option: str, value: str) -> None:
    result = cli("gate", *changed, option, value, "--json")
    assert result.exit_code == 2
    assert option in result.stderr
    assert not result.stdout


def test_words_may_be_less_exact_in_time(cli: Cli) -> None:
    base = written(cli.folder / "base", heard(f"{HUNDRED} last"))
    candidate = written(cli.folder / "candidate", heard(HUNDRED))
    assert cli("gate", str(base), str(candidate)).exit_code == 7
    assert cli("gate", str(base), str(candidate), "--speech-tolerance", "0.4").exit_code == 0


def test_a_program_reads_one_object(cli: Cli, changed: tuple[str, str]) -> None:
    document = report(cli, *changed)
    assert (document["passed"], document["units"], document["lost"], document["added"]) == (False, 2, [], [])
    rate = next(one for one in document["criteria"] if one["name"] == "word edit rate")
    assert (rate["figure"], rate["threshold"], rate["passed"]) == (0.02, 0.01, False)
    [worst] = document["worst"]
    assert (worst["key"], worst["edits"]) == ("long", 2)
    assert worst["words"] == [{"base": "w10", "candidate": "x10"}, {"base": "w11", "candidate": "x11"}]


def test_the_object_is_written_beside_the_report(cli: Cli, changed: tuple[str, str]) -> None:
    result = cli("gate", *changed, "--out", "report.json")
    assert "word edit rate" in result.stdout
    assert json.loads((cli.folder / "report.json").read_text()) == report(cli, *changed)
    assert cli("gate", *changed, "--out", "no/where/report.json").exit_code == 2


def test_no_words_are_shown_where_no_units_are_asked_for(cli: Cli, changed: tuple[str, str]) -> None:
    assert "w10" not in cli("gate", *changed, "-n", "0").stdout
    assert "w10" not in json.dumps(report(cli, *changed, "-n", "0"))


def test_exactly_names_the_first_difference_of_each_unit(cli: Cli, changed: tuple[str, str]) -> None:
    result = cli("gate", *changed, "--exact")
    assert result.exit_code == 7
    assert "long: words[10].text: 'w10' → 'x10'" in result.stdout
    assert report(cli, *changed, "--exact")["differences"] == {"long": "words[10].text: 'w10' → 'x10'"}


def test_units_that_are_missing_are_named_with_what_became_of_them(cli: Cli) -> None:
    base = written(cli.folder / "base", *(heard(key=key) for key in "abc"))
    candidate = written(cli.folder / "candidate", heard(key="a"), heard(key="d"))
    (candidate / "b.json").write_text('{"key": "b", "state": "dead"}')
    (candidate / "torn.json").write_text("{")
    said = cli("gate", str(base), str(candidate)).stdout
    assert "lost: b (dead), c\n" in said
    assert "added: d\n" in said
    assert "cannot be read: " in said
    assert "torn.json" in said


def test_what_volery_results_writes_can_be_compared_with_artifacts(cli: Cli) -> None:
    cli.finish("talk", "../up")
    cli("results", "-o", "out")
    result = cli("gate", "out", "store/artifacts", "--exact")
    assert (result.exit_code, result.stderr) == (0, "")


@pytest.mark.parametrize("folder", ["empty", "nowhere"])
def test_a_folder_without_results_is_an_error_of_the_command_line(
    cli: Cli, changed: tuple[str, str], folder: str
) -> None:
    (cli.folder / "empty").mkdir()
    result = cli("gate", changed[0], folder)
    assert (result.exit_code, result.stdout) == (2, "")
    assert folder in result.stderr


@pytest.mark.parametrize("columns", ["10", "40", "300"])
def test_the_report_fits_any_terminal(
    cli: Cli, changed: tuple[str, str], monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert cli("gate", *changed).exit_code == 7


def test_it_loads_no_model_library(changed: tuple[str, str]) -> None:
    code = (
        "import sys; from typer.testing import CliRunner; from volery.cli import app\n"
        "assert 'scipy' not in sys.modules\n"
        f"assert CliRunner().invoke(app, ['gate', *{changed!r}]).exit_code == 7\n"
        "print(sorted({'torch', 'nemo', 'pyannote', 'volery.app', 'volery.worker'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"


def test_a_missing_package_is_named_with_how_to_install_it(
    cli: Cli, changed: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("volery.bench.gate.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "jiwer", None)
    result = cli("gate", *changed)
    assert result.exit_code == 3
    assert "volery[bench]" in result.stderr
