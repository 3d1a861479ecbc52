"""How commands fail: one line on standard error, and an exit code that says which kind it was."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import Cli, touch

from volery.cli.exits import ExitCode, exit_code_of
from volery.units import (
    ConfigurationError,
    KeyConflictError,
    QuarantineError,
    Reason,
    StoreError,
    UnitFailed,
    VoleryError,
)

_HEAVY = ("torch", "numpy", "nemo", "pyannote", "av", "lightning", "faster_whisper", "transformers")
_LIGHT = """
import sys
from volery.cli import main
sys.argv = ["volery", *sys.argv[1:]]
try:
    main()
finally:
    print([name for name in {heavy!r} if name in sys.modules], file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (KeyConflictError(["a"]), ExitCode.USAGE),
        (ConfigurationError(""), ExitCode.CONFIGURATION),
        (StoreError(""), ExitCode.STORE),
        (QuarantineError("", ""), ExitCode.QUARANTINED),
        (UnitFailed(Reason.SPEECH_FAILED, ""), ExitCode.UNITS_FAILED),
    ],
)
def test_every_kind_of_error_has_its_exit_code(error: VoleryError, code: ExitCode) -> None:
    assert exit_code_of(error) is code


@pytest.mark.parametrize(
    ("variable", "value", "code", "said"),
    [
        ("BATCH_PIPELINE_LANES", "many", 3, "BATCH_PIPELINE_LANES: "),
        ("BATCH_PIPELINE_LANE", "2", 3, "did you mean BATCH_PIPELINE_LANES?"),
        ("BATCH_PIPELINE_DATABASE_URL", "mysql://ann:secret@host/db", 4, "mysql"),
        ("BATCH_PIPELINE_DATABASE_URL", "postgresql://ann:secret@127.0.0.1:1/db", 4, "127.0.0.1"),
        ("BATCH_PIPELINE_DATABASE_URL", "sqlite:////proc/volery/volery.db", 4, "/proc/volery"),
    ],
)
def test_a_setting_that_cannot_work_is_one_line_without_secrets(
    cli: Cli, variable: str, value: str, code: int, said: str
) -> None:
    ran = cli.program("status", "--json", **{variable: value})
    assert (ran.returncode, ran.stdout) == (code, "")
    assert ran.stderr.startswith("volery: ")
    assert said in ran.stderr
    assert ran.stderr.count("\n") == 1
    assert "secret" not in ran.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("status",),
        ("results",),
        ("results", "--key", "talk"),
        ("gc", "--older-than", "7d"),
        ("requeue", "--all", "--yes"),
        ("cancel", "--all", "--yes"),
        ("cancel", "talk"),
    ],
    ids=" ".join,
)
def test_a_command_that_creates_no_store_says_that_there_is_none(cli: Cli, arguments: tuple[str, ...]) -> None:
    (cli.folder / "store" / "artifacts" / "results").mkdir(parents=True)  # gc looks for results first
    ran = cli(*arguments)
    assert ran.exit_code == ExitCode.STORE
    assert "volery.db does not exist: correct BATCH_PIPELINE_DATABASE_URL" in " ".join(ran.stderr.split())
    assert not (cli.folder / "store" / "volery.db").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        ("--version",),
        ("submit", "talk.wav"),
        ("status", "--json"),
        ("results",),
        ("results", "--key", "talk", "--format", "srt"),
        ("requeue", "--all", "--yes"),
        ("cancel", "--all", "--yes"),
        ("db", "upgrade"),
    ],
    ids=" ".join,
)
def test_a_light_command_imports_nothing_heavy(cli: Cli, arguments: tuple[str, ...]) -> None:
    touch(cli.folder, ["talk.wav"])
    cli.finish("talk")
    program = _LIGHT.format(heavy=_HEAVY)
    ran = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, cwd=cli.folder, check=False
    )
    assert (ran.returncode, ran.stderr.splitlines()[-1]) == (0, "[]")


@pytest.mark.parametrize("units", [1, 300], ids=["less than a buffer", "more than a buffer"])
def test_a_reader_that_goes_away_is_no_error(cli: Cli, units: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    keys = [f"talk-{number}" for number in range(units)]
    cli.add(*keys)
    reader, writer = os.pipe()
    os.close(reader)
    volery = Path(sys.executable).with_name("volery")
    ran = subprocess.run(
        [volery, "results", "--state", "ready"], stdout=writer, stderr=subprocess.PIPE, cwd=cli.folder, check=False
    )
    os.close(writer)
    assert (ran.returncode, ran.stderr) == (ExitCode.PIPE_CLOSED, b"")


def test_the_version_is_printed(cli: Cli) -> None:
    ran = cli.program("--version")
    assert (ran.returncode, ran.stdout.split()[0]) == (0, "volery")
