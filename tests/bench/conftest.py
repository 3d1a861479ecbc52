"""A bench small enough for tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.stubs import Trial


@pytest.fixture
def trial(tmp_path: Path) -> Trial:
    return Trial(tmp_path)
