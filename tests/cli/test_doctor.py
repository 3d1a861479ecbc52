"""What `volery doctor` finds, and how it judges accelerators that this machine does not have."""

from __future__ import annotations

import json
from pathlib import Path
from threading import Event

import pytest
from command_line import Cli

from volery.cli.checks.check import Verdict, within
from volery.cli.checks.machine import Driver, TorchBuild, find_driver, judge_accelerator

CUDA_13 = TorchBuild("2.14.1", "13.0", devices=0)


def verdicts(document: str) -> dict[str, str]:
    return {check["name"]: check["verdict"] for check in json.loads(document)["checks"]}


def test_a_machine_that_will_do_passes(cli: Cli) -> None:
    ran = cli.program("doctor", "--json", BATCH_PIPELINE_MODELS="embedded", BATCH_PIPELINE_DEVICE="cpu")
    document = json.loads(ran.stdout)
    assert (ran.returncode, document["ok"]) == (0, True)
    found = verdicts(ran.stdout)
    assert found["Job store"] == found["Results"] == found["Settings"] == found["Model hub"] == "ok"


def test_a_store_that_cannot_be_used_fails_and_says_what_to_do(cli: Cli) -> None:
    ran = cli.program("doctor", "--json", BATCH_PIPELINE_DATABASE_URL="postgresql://ann:secret@127.0.0.1:1/db")
    [check] = [check for check in json.loads(ran.stdout)["checks"] if check["name"] == "Job store"]
    assert (ran.returncode, check["verdict"]) == (3, "failed")
    assert "BATCH_PIPELINE_DATABASE_URL" in check["advice"]
    assert "secret" not in ran.stdout


def test_results_that_cannot_be_written_fail(cli: Cli) -> None:
    (cli.folder / "file").write_text("")
    folder = (cli.folder / "file" / "artifacts").as_uri()
    ran = cli.program("doctor", "--json", BATCH_PIPELINE_ARTIFACTS_URL=folder)
    assert (ran.returncode, verdicts(ran.stdout)["Results"]) == (3, "failed")


def test_settings_that_make_no_sense_fail_and_those_that_are_unknown_warn(cli: Cli) -> None:
    failed = cli.program("doctor", "--json", BATCH_PIPELINE_LANES="many")
    assert (failed.returncode, verdicts(failed.stdout)["Settings"]) == (3, "failed")
    warned = cli.program("doctor", "--json", BATCH_PIPELINE_SOMETHING_ENTIRELY_ELSE="1")
    assert (warned.returncode, verdicts(warned.stdout)["Settings"]) == (0, "warning")


@pytest.mark.parametrize(
    ("wanted", "driver", "torch", "verdict", "said"),
    [
        ("auto", None, CUDA_13, Verdict.OK, ""),
        ("cuda", None, CUDA_13, Verdict.FAILED, "install a driver"),
        ("auto", Driver("570.10"), CUDA_13, Verdict.FAILED, "580 or newer"),
        ("cpu", Driver("570.10"), CUDA_13, Verdict.OK, ""),
        ("auto", Driver("570.10"), TorchBuild("2.9", "12.8", 0), Verdict.FAILED, "CUDA_VISIBLE_DEVICES"),
        ("auto", Driver("580.65"), TorchBuild("2.9", None, 0), Verdict.FAILED, "built for CPUs"),
        ("auto", Driver("580.65", ("H200",)), TorchBuild("2.14", "13.0", 1), Verdict.OK, ""),
        ("auto", Driver("580.65", ("H200",) * 2), TorchBuild("2.14", "13.0", 2), Verdict.FAILED, "exactly one"),
        ("auto", None, None, Verdict.WARNING, "volery[worker]"),
    ],
)
def test_an_accelerator_is_judged_by_driver_and_torch(
    wanted: str, driver: Driver | None, torch: TorchBuild | None, verdict: Verdict, said: str
) -> None:
    check = judge_accelerator(wanted, driver, torch)
    assert check.verdict is verdict
    assert said in check.advice


def test_a_driver_is_found_through_nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho '580.95.05, NVIDIA H200, 143771 MiB'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert find_driver() == Driver("580.95.05", ("NVIDIA H200 143771 MiB",))


def test_what_hangs_is_left_behind() -> None:
    never = Event()
    with pytest.raises(TimeoutError):
        within(0.01, never.wait)
    never.set()
    assert within(60, lambda: 1) == 1
