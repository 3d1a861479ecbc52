"""docs/reference says what the code does."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_docs", ROOT / "scripts" / "generate_docs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def check(root: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(root / "scripts" / "generate_docs.py"), "--check"]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, check=False)


def test_the_pages_are_up_to_date_whatever_the_machine() -> None:
    ran = check(ROOT, XDG_DATA_HOME="/somewhere/else", COLUMNS="40", BATCH_PIPELINE_LANES="7")
    assert (ran.returncode, ran.stdout) == (0, "")


def test_a_stale_page_is_shown_as_a_difference(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    shutil.copytree(ROOT / "docs" / "reference", tmp_path / "docs" / "reference")
    page = tmp_path / "docs" / "reference" / "exit-codes.md"
    page.write_text(page.read_text().replace("QUARANTINED", "OUT"))
    ran = check(tmp_path)
    assert ran.returncode == 1
    assert "-| 5 | `OUT`" in ran.stdout
    assert "+| 5 | `QUARANTINED`" in ran.stdout


def test_defaults_that_depend_on_the_machine_are_written_neutrally(generator: ModuleType) -> None:
    page = generator.settings_page()
    assert "`sqlite:////<user data folder>/volery.db`" in page
    assert str(Path.home()) not in page.replace("/<user data folder>", "")
