"""How `volery worker` ends."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import wave
from pathlib import Path

import pytest
from command_line import Cli

from volery.cli.exits import ExitCode
from volery.queue import JobStore
from volery.settings import WorkerSettings
from volery.units import Unit, UnitState

_PROGRAM = Path(__file__).with_name("scripted_worker.py")


def start(cli: Cli, script: str, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(_PROGRAM), script, "worker", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cli.folder)


def run(cli: Cli, script: str, *arguments: str) -> tuple[int, str]:
    process = start(cli, script, *arguments)
    _, errors = process.communicate(timeout=120)
    return process.returncode, errors


def submit_audio(cli: Cli) -> None:
    path = cli.folder / "quiet.wav"
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16_000)
        file.writeframes(bytes(32_000))
    cli.store(lambda store: store.submit([Unit(key="quiet", audio_uri=path.as_uri())]))


def states(cli: Cli) -> list[UnitState]:
    return [record.state for record in cli.records()]


def test_a_burst_in_which_every_unit_is_done_ends_well(cli: Cli) -> None:
    submit_audio(cli)
    assert run(cli, "plain", "--burst")[0] == ExitCode.OK
    assert states(cli) == [UnitState.DONE]


def test_a_burst_that_rejects_a_unit_says_so(cli: Cli) -> None:
    submit_audio(cli)
    cli.add("missing")
    assert run(cli, "plain", "--burst")[0] == ExitCode.UNITS_FAILED
    assert states(cli) == [UnitState.DONE, UnitState.REJECTED]


def test_what_an_earlier_run_rejected_is_not_this_runs_failure(cli: Cli) -> None:
    cli.reject("bad")
    assert run(cli, "plain", "--burst")[0] == ExitCode.OK


def test_a_burst_makes_no_store_where_there_is_none(cli: Cli) -> None:
    code, errors = run(cli, "plain", "--burst")
    assert code == ExitCode.STORE
    assert "volery.db does not exist: correct BATCH_PIPELINE_DATABASE_URL, or submit units first" in errors
    assert list(cli.folder.iterdir()) == []


def test_a_worker_that_stays_makes_a_store_and_names_it(cli: Cli) -> None:
    path = cli.folder / "store" / "volery.db"
    for warns in (True, False):
        process = start(cli, "loading", "--http-port", "0")
        assert process.stdout is not None
        assert process.stdout.readline() == "loading\n"
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=120)
        assert process.returncode == ExitCode.OK
        assert path.exists()
        warnings = [json.loads(line) for line in errors.splitlines() if "there was no job store" in line]
        assert [(one["level"], one["path"]) for one in warnings] == [("warning", str(path))] * warns


def test_bursts_beside_each_other_do_not_fight_for_a_port(cli: Cli) -> None:
    cli.add()
    port = WorkerSettings().http_port
    with socket.socket() as taken:
        with contextlib.suppress(OSError):  # another program has it already
            taken.bind(("0.0.0.0", port))
            taken.listen()
        assert run(cli, "plain", "--burst")[0] == ExitCode.OK
        code, errors = run(cli, "plain", "--burst", "--http-port", str(port))
    assert code == ExitCode.CONFIGURATION
    assert f"cannot listen on 0.0.0.0:{port}" in errors.splitlines()[-1]


def test_a_quarantine_ends_the_process_though_a_thread_is_stuck(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BATCH_PIPELINE_QUARANTINE_LINGER_SECONDS", "0")
    submit_audio(cli)
    assert run(cli, "quarantine", "--burst")[0] == ExitCode.QUARANTINED
    assert states(cli) == [UnitState.READY]


def test_a_drain_that_overruns_ends_the_process_and_gives_the_lease_back(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BATCH_PIPELINE_DRAIN_SECONDS", "0")
    submit_audio(cli)
    process = start(cli, "stuck", "--http-port", "0")
    assert process.stdout is not None
    assert process.stdout.readline() == "stuck\n"
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=120)
    assert process.returncode == ExitCode.DRAIN_OVERRAN
    assert states(cli) == [UnitState.READY]

    async def endings(store: JobStore) -> list[str | None]:
        return [grant.ended_as for grant in await store.grants()]

    assert cli.store(endings) == ["refund:drain"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_models_load_drains_a_worker_that_holds_nothing(cli: Cli, number: signal.Signals) -> None:
    cli.add()
    process = start(cli, "loading", "--burst")
    assert process.stdout is not None
    assert process.stdout.readline() == "loading\n"
    process.send_signal(number)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == ExitCode.OK
    assert "Traceback" not in errors


def test_an_option_overrides_the_setting_of_its_name(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BATCH_PIPELINE_LANES", "2")
    code, errors = run(cli, "plain", "--burst", "--lanes", "99")
    assert code == ExitCode.CONFIGURATION
    assert errors.startswith("volery: BATCH_PIPELINE_LANES: ")


@pytest.mark.parametrize(
    ("setting", "value", "code", "said"),
    [
        ("LANES", "none", ExitCode.CONFIGURATION, "BATCH_PIPELINE_LANES"),
        ("LANEZ", "2", ExitCode.CONFIGURATION, "did you mean BATCH_PIPELINE_LANES?"),
        ("DATABASE_URL", "sqlite:////dev/null/volery.db", ExitCode.STORE, "cannot create its folder"),
        ("ARTIFACTS_URL", "file:///dev/null/artifacts", ExitCode.STORE, "/dev/null/artifacts"),
        ("ARTIFACTS_URL", "s3://bucket/volery", ExitCode.CONFIGURATION, "a s3 URL"),
    ],
)
def test_a_mistake_is_told_before_torch_is_imported(
    cli: Cli, setting: str, value: str, code: ExitCode, said: str
) -> None:
    done = look_for_torch(**{setting: value})
    assert done.returncode == code
    assert said in done.stderr
    assert done.stdout == "False\n"


@pytest.mark.parametrize(
    ("lacking", "settings", "said"),
    [
        ("none", {"REFEREE_MODEL": "/nonexistent"}, "BATCH_PIPELINE_REFEREE_MODEL points at /nonexistent"),
        (
            "none",
            {"REFEREE_MODEL": "tiny", "REFEREE_ESCALATION_MODEL": "/nonexistent"},
            "BATCH_PIPELINE_REFEREE_ESCALATION_MODEL points at /nonexistent",
        ),
        ("jiwer", {}, "the package jiwer is not installed: pip install 'volery[referee]'"),
    ],
)
def test_a_referee_that_could_not_work_is_told_before_torch_is_imported(
    cli: Cli, lacking: str, settings: dict[str, str], said: str
) -> None:
    done = look_for_torch(lacking, REFEREE_SAMPLE_RATE="1", **settings)
    assert done.returncode == ExitCode.CONFIGURATION
    assert said in " ".join(done.stderr.split())
    assert done.stdout == "False\n"


def look_for_torch(lacking: str = "none", **settings: str) -> subprocess.CompletedProcess[str]:
    """A worker without one package, under some settings; at its end it prints whether torch was imported."""
    program = (
        "import atexit, sys; atexit.register(lambda: print('torch' in sys.modules)); "
        f"sys.modules[{lacking!r}] = None; from volery import cli; cli.main()"
    )
    return subprocess.run(
        [sys.executable, "-c", program, "worker"],
        env={**os.environ, **{f"BATCH_PIPELINE_{name}": value for name, value in settings.items()}},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_an_unknown_setting_is_logged(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BATCH_PIPELINE_SOMETHING_ENTIRELY_ELSE", "1")
    cli.add()
    code, errors = run(cli, "plain", "--burst")
    assert code == ExitCode.OK
    assert "BATCH_PIPELINE_SOMETHING_ENTIRELY_ELSE" in errors
