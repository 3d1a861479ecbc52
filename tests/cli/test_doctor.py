"""What `volery doctor` finds, and how it judges accelerators that this machine does not have."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import Cli

from artifacts.gcs_emulator import emulated_bucket
from volery.cli.checks.check import Verdict
from volery.cli.checks.machine import Driver, TorchBuild, find_driver, judge_accelerator

CUDA_13 = TorchBuild("2.14.1", "13.0", devices=0)


Doctor = Callable[..., tuple[int, dict[str, dict[str, str]]]]


@pytest.fixture
def doctor(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Doctor:
    """Runs `volery doctor --json` under some settings: its exit code, and the checks by name."""

    def run(**environment: str) -> tuple[int, dict[str, dict[str, str]]]:
        with monkeypatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(f"BATCH_PIPELINE_{name}", value)
            result = cli("doctor", "--json")
        document = json.loads(result.stdout)
        assert document["ok"] == (result.exit_code == 0)
        return result.exit_code, {check["name"]: check for check in document["checks"]}

    return run


def test_a_machine_that_will_do_passes(doctor: Doctor, cli: Cli) -> None:
    cli("db", "upgrade")
    code, checks = doctor(MODELS="embedded", DEVICE="cpu")
    assert code == 0
    names = ("Python", "Settings", "Accelerator", "Model hub", "Job store", "Results")
    assert {checks[name]["verdict"] for name in names} == {"ok"}


@pytest.mark.parametrize("url", ["postgresql://ann:secret@127.0.0.1:1/db", "postgresql://ann:p@ss/secret@127.0.0.1/db"])
def test_a_store_that_cannot_be_used_fails_and_says_what_to_do(doctor: Doctor, url: str) -> None:
    code, checks = doctor(DATABASE_URL=url)
    assert (code, checks["Job store"]["verdict"]) == (3, "failed")
    assert "BATCH_PIPELINE_DATABASE_URL" in checks["Job store"]["advice"]
    assert "secret" not in str(checks)


def test_where_no_store_is_none_is_made_and_who_makes_one_is_said(doctor: Doctor, tmp_path: Path) -> None:
    database = tmp_path / "mistyped" / "volery.db"
    code, checks = doctor(DEVICE="cpu", DATABASE_URL=f"sqlite:///{database}")
    assert (code, checks["Job store"]["verdict"]) == (0, "warning")
    assert checks["Job store"]["found"] == f"there is no store yet at {database}"
    assert "`volery submit` or `volery db upgrade` makes one" in checks["Job store"]["advice"]
    assert not database.parent.exists()


def test_a_fresh_machine_without_a_store_is_not_warned_of(
    doctor: Doctor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BATCH_PIPELINE_DATABASE_URL")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    code, checks = doctor(DEVICE="cpu")
    assert (code, checks["Job store"]["verdict"]) == (0, "ok")
    assert "no store yet" in checks["Job store"]["found"]
    assert not (tmp_path / "home").exists()


def test_a_place_where_no_store_can_be_made_fails(doctor: Doctor, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, checks = doctor(DATABASE_URL=f"sqlite:///{tmp_path}/file/volery.db")
    assert (code, checks["Job store"]["verdict"]) == (3, "failed")
    assert f"{tmp_path}/file is no folder" in checks["Job store"]["found"]


def test_the_referee_is_looked_at_where_a_share_is_audited(doctor: Doctor) -> None:
    assert "Referee" not in doctor(DEVICE="cpu")[1]
    code, checks = doctor(DEVICE="cpu", MODELS="embedded", REFEREE_SAMPLE_RATE="0.02")
    assert (code, checks["Referee"]["verdict"]) == (0, "ok")
    assert "audits 0.02 of the units" in checks["Referee"]["found"]


def test_a_referee_that_could_not_work_fails(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    code, checks = doctor(DEVICE="cpu", REFEREE_SAMPLE_RATE="1", REFEREE_MODEL="/nonexistent")
    assert (code, checks["Referee"]["verdict"]) == (3, "failed")
    assert "BATCH_PIPELINE_REFEREE_MODEL points at /nonexistent" in checks["Referee"]["advice"]
    monkeypatch.setitem(sys.modules, "jiwer", None)
    code, checks = doctor(DEVICE="cpu", REFEREE_SAMPLE_RATE="1")
    assert (code, checks["Referee"]["verdict"]) == (3, "failed")
    assert "pip install 'volery[referee]'" in checks["Referee"]["advice"]


def test_results_that_cannot_be_written_fail(doctor: Doctor, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, checks = doctor(ARTIFACTS_URL=(tmp_path / "file" / "artifacts").as_uri())
    assert (code, checks["Results"]["verdict"]) == (3, "failed")


def test_settings_that_make_no_sense_fail(doctor: Doctor) -> None:
    code, checks = doctor(LANES="many")
    assert (code, checks["Settings"]["verdict"]) == (3, "failed")
    assert "BATCH_PIPELINE_LANES" in checks["Settings"]["found"]


def test_settings_that_are_unknown_warn(doctor: Doctor) -> None:
    code, checks = doctor(SOMETHING_ENTIRELY_ELSE="1")
    assert (code, checks["Settings"]["verdict"]) == (0, "warning")


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


def test_a_bucket_that_cannot_be_written_is_told_with_what_to_do(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    with emulated_bucket(monkeypatch) as bucket:
        code, checks = doctor(DEVICE="cpu", ARTIFACTS_URL=bucket.uri("prefix"))
        assert (code, checks["Results"]["verdict"]) == (0, "ok")
        code, checks = doctor(DEVICE="cpu", ARTIFACTS_URL="gs://elsewhere")
    assert (code, checks["Results"]["verdict"]) == (3, "failed")
    assert "no such bucket" in checks["Results"]["advice"]


def test_without_the_packages_of_a_worker_models_are_not_looked_for(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    code, checks = doctor(DEVICE="cpu")
    assert (code, checks["Models"]["verdict"]) == (0, "warning")
    assert "volery[worker,embedded]" in checks["Models"]["advice"]
