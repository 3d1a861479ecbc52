"""Libraries that report home are told not to, before they are imported."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(("variable", "value"), [("ORT_DISABLE_TELEMETRY", "1"), ("PYANNOTE_METRICS_ENABLED", "false")])
def test_the_speech_room_switches_telemetry_off_before_it_imports_any_model_library(variable: str, value: str) -> None:
    code = (
        "import os, sys, volery.speech;"
        f"assert os.environ[{variable!r}] == {value!r};"
        "assert not {'onnxruntime', 'pyannote.audio', 'torch'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={"PATH": "/usr/bin:/bin"})
