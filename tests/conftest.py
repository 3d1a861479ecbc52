"""What every test shares."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest
import structlog

import volery.speech  # noqa: F401  # before torch, whoever imports it: it decides how torch's threads wait

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(autouse=True)
def _no_ambient_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings of the shell that runs the tests must not reach them."""
    for name in list(os.environ):
        if name.upper().startswith("BATCH_PIPELINE_"):
            monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def _no_logging_set_up_elsewhere() -> None:
    """A command under test sets up logging for its process, which is every test's."""
    structlog.reset_defaults()


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real audio kept beside the checkout; it is not part of the project."""
    folder = ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("the audio data beside the checkout is absent")
    return folder


@pytest.fixture(scope="session")
def conversation() -> Path:
    """The half-minute telephone conversation of two people that pyannote.audio carries."""
    spec = importlib.util.find_spec("pyannote.audio")
    if spec is None or spec.origin is None:
        pytest.skip("pyannote.audio is not installed")
    return Path(spec.origin).parent / "sample" / "sample.wav"
