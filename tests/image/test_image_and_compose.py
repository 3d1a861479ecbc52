"""The image and the compose file, as far as they can be judged without building or starting anything."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.version import Version

from volery.cli.checks.machine import _LEAST_DRIVER
from volery.settings import PREFIX, WorkerSettings, known_names

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
HADOLINT = shutil.which("hadolint", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
RESET = object()


class _Override(yaml.SafeLoader):
    """Reads a file that is laid over another one: `!reset` takes a key of that away."""


_Override.add_constructor("!reset", lambda loader, node: RESET)
CPU: dict[str, Any] = yaml.load((ROOT / "config/compose/cpu.yaml").read_text(), _Override)


def laid_over(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """One file of compose over another, as far as ours need it: mappings are merged, `!reset` removes."""
    both = dict(below)
    for key, value in above.items():
        if value is RESET:
            del both[key]
        else:
            both[key] = laid_over(below.get(key, {}), value) if isinstance(value, dict) else value
    return both


def compose_that_resets() -> str:
    """Compose 2.24 or newer, which knows `!reset`; empty where there is none."""
    program = shutil.which("docker-compose") or ""
    done = (
        subprocess.run([program, "version", "--short"], capture_output=True, text=True, check=False)
        if program
        else None
    )
    version = Version(done.stdout.strip()) if done is not None and done.returncode == 0 else Version("0")
    return program if version >= Version("2.24") else ""


def locked(name: str) -> dict[str, str]:
    """Packages of a lock file with their versions."""
    lines = (ROOT / name).read_text().splitlines()
    pins = [Requirement(line.rstrip(" \\")) for line in lines if re.match(r"[a-z0-9]", line)]
    return {pin.name: str(pin.specifier) for pin in pins}


@pytest.mark.skipif(HADOLINT is None, reason="needs hadolint")
def test_hadolint_finds_no_fault() -> None:
    subprocess.run([str(HADOLINT), str(ROOT / "Dockerfile")], check=True)


def test_the_image_has_what_the_tests_ran_with_and_no_test_tools() -> None:
    image, everything = locked("requirements-image.lock"), locked("requirements.lock")
    assert image.items() <= everything.items()
    assert {"torch", "nemo-toolkit", "pyannote-audio", "google-cloud-storage", "asyncpg"} <= image.keys()
    assert not {"pytest", "mypy", "pgserver", "procrastinate"} & image.keys()


def test_the_image_runs_volery_as_nobody_in_particular() -> None:
    assert 'ENTRYPOINT ["volery"]' in DOCKERFILE
    assert "USER 10001:10001" in DOCKERFILE


def test_the_driver_on_the_label_is_the_one_that_doctor_asks_for() -> None:
    cuda = re.search(r'com\.nvidia\.cuda\.version="(\d+)', DOCKERFILE)
    driver = re.search(r'com\.nvidia\.driver\.least="(\d+)"', DOCKERFILE)
    assert cuda
    assert driver
    assert _LEAST_DRIVER[int(cuda[1])] == int(driver[1])


def test_the_cuda_on_the_label_is_the_one_that_torch_brings() -> None:
    assert locked("requirements-image.lock")["nvidia-cuda-runtime"].removeprefix("==").startswith("13.0.")
    assert 'com.nvidia.cuda.version="13.0"' in DOCKERFILE


def test_every_file_that_the_image_copies_is_let_through() -> None:
    let_through = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, flags=re.MULTILINE)
    assert {name for line in copied for name in line.split()} <= let_through
    assert all((ROOT / name).exists() for name in let_through)


def test_compose_sets_only_settings_that_there_are() -> None:
    services = [*COMPOSE["services"].values(), COMPOSE["x-volery"]]
    names = {name for one in services for name in one.get("environment", {}) if name.startswith(PREFIX)}
    assert names
    assert names <= known_names()


def test_compose_mounts_only_files_that_there_are() -> None:
    mounts = [mount for one in COMPOSE["services"].values() for mount in one.get("volumes", ())]
    files = [mount.split(":")[0] for mount in mounts if mount.startswith("./")]
    made_by_the_reader = {"./audio"}
    assert [name for name in files if name not in made_by_the_reader and not (ROOT / name).exists()] == []


def test_a_worker_of_compose_may_finish_its_drain() -> None:
    grace = int(COMPOSE["services"]["worker"]["stop_grace_period"].removesuffix("s"))
    assert grace > WorkerSettings.model_fields["drain_seconds"].default


@pytest.mark.skipif(shutil.which("docker-compose") is None, reason="needs docker-compose")
def test_compose_itself_takes_the_file() -> None:
    command = ["docker-compose", "--file", str(ROOT / "compose.yaml"), "config", "--quiet"]
    subprocess.run(command, env={**os.environ, "POSTGRES_PASSWORD": "x"}, check=True)


def test_a_worker_without_a_gpu_runs_the_models_of_packages_on_the_cpu_and_is_otherwise_the_same() -> None:
    worker = COMPOSE["services"]["worker"]
    on_cpu = laid_over(COMPOSE, CPU)["services"]["worker"]
    assert on_cpu["deploy"] == {"resources": {"reservations": {}}}
    changed = {name for name in on_cpu["environment"] if on_cpu["environment"][name] != worker["environment"].get(name)}
    assert {name: on_cpu["environment"][name] for name in changed} == {
        f"{PREFIX}DEVICE": "cpu",
        f"{PREFIX}MODELS": "embedded",
    }
    assert {key for key in on_cpu if on_cpu[key] != worker[key]} == {"deploy", "environment"}


@pytest.mark.skipif(not compose_that_resets(), reason="needs docker-compose 2.24 or newer")
def test_compose_itself_takes_the_gpu_away() -> None:
    files = [f"--file={ROOT / name}" for name in ("compose.yaml", "config/compose/cpu.yaml")]
    done = subprocess.run(
        [compose_that_resets(), *files, "config"],
        env={**os.environ, "POSTGRES_PASSWORD": "x"},
        check=True,
        capture_output=True,
        text=True,
    )
    worker = yaml.safe_load(done.stdout)["services"]["worker"]
    assert "devices" not in worker["deploy"]["resources"]["reservations"]
    assert worker["environment"][f"{PREFIX}DEVICE"] == "cpu"


def test_what_compose_scrapes_has_the_labels_that_the_dashboards_choose_by() -> None:
    [job] = yaml.safe_load((ROOT / "config/compose/prometheus.yml").read_text())["scrape_configs"]
    for target in job["static_configs"]:
        assert target["labels"].keys() == {"namespace", "pod"}
        assert {address.partition(":")[0] for address in target["targets"]} <= COMPOSE["services"].keys()


@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool")
def test_prometheus_takes_its_configuration() -> None:
    subprocess.run(["promtool", "check", "config", str(ROOT / "config/compose/prometheus.yml")], check=True)
