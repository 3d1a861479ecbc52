"""The command line over a real job store and real results of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import Cli


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BATCH_PIPELINE_DATABASE_URL", f"sqlite:///{tmp_path / 'store' / 'volery.db'}")
    monkeypatch.setenv("BATCH_PIPELINE_ARTIFACTS_URL", (tmp_path / "store" / "artifacts").as_uri())
    return Cli(tmp_path)
