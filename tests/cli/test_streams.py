"""Commands whose output goes nowhere, or to something that cannot take every character."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

VOLERY = Path(sys.executable).with_name("volery")


def run(command: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    url = f"sqlite:///{folder / 'volery.db'}"
    env = {**os.environ, "BATCH_PIPELINE_DATABASE_URL": url, "V": str(VOLERY), **variables}
    return subprocess.run(["bash", "-c", command], env=env, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("command", ['"$V" status >&-', '"$V" status --json >&-', '"$V" status 2>&-'])
def test_a_closed_stream_is_no_reason_for_a_traceback(tmp_path: Path, command: str) -> None:
    assert run('"$V" db upgrade', tmp_path).returncode == 0
    ran = run(command, tmp_path)
    assert ran.returncode == 0
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("command", ['"$V" status > /dev/full', '"$V" status --json > /dev/full'])
def test_output_without_room_is_said_to_have_none(tmp_path: Path, command: str) -> None:
    assert run('"$V" db upgrade', tmp_path).returncode == 0
    ran = run(command, tmp_path)
    assert (ran.returncode, "Traceback" in ran.stderr) == (3, False)
    assert "volery: cannot write what was asked for: No space left on device" in ran.stderr


def test_a_stream_that_is_not_utf_8_takes_every_key(tmp_path: Path) -> None:
    (tmp_path / "größe.wav").write_bytes(b"RIFF")
    ran = run('"$V" submit größe.wav --json', tmp_path, PYTHONIOENCODING="ascii")
    assert (ran.returncode, "Traceback" in ran.stderr) == (0, False)


def test_watching_elsewhere_than_at_a_terminal_is_refused(tmp_path: Path) -> None:
    ran = run('"$V" status --watch', tmp_path)
    assert ran.returncode == 2
    assert "--json" in ran.stderr
