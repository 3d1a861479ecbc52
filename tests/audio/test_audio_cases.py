"""The odd files that a queue meets, each with what must become of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audio.sounds import decoded
from volery.audio.samples import Samples
from volery.units import UnitRejected

Case = dict[str, Any]


@pytest.fixture(scope="module")
def folder(shared_data: Path) -> Path:
    return shared_data / "audio-cases"


@pytest.fixture(scope="module")
def cases(folder: Path) -> list[Case]:
    found: list[Case] = json.loads((folder / "manifest.json").read_text())
    return found


def outcome(path: Path) -> str:
    try:
        decoded(path.read_bytes())
    except UnitRejected as error:
        return error.reason
    return "done"


def test_every_case_ends_as_it_must(folder: Path, cases: list[Case]) -> None:
    expected = {case["file"]: case.get("reason", "done") for case in cases}
    assert {name: outcome(folder / name) for name in expected} == expected


def test_every_known_length_is_right(folder: Path, cases: list[Case]) -> None:
    expected = {case["file"]: case["duration_s"] for case in cases if "duration_s" in case}
    assert expected
    found = {name: decoded((folder / name).read_bytes()).duration_s for name in expected}
    assert found == pytest.approx(expected, abs=0.15)


def test_only_the_file_that_breaks_off_is_truncated(folder: Path, cases: list[Case]) -> None:
    done = [case["file"] for case in cases if case["expect"] == "done"]
    truncated = [name for name in done if decoded((folder / name).read_bytes()).truncated]
    assert truncated == ["truncated_body.wav"]


def test_every_container_of_the_same_speech_sounds_the_same(folder: Path) -> None:
    reference = decoded((folder / "flac_named.wav").read_bytes()).samples
    for name in ("speech.opus", "speech.mp3", "speech.m4a", "speech.webm"):
        samples = decoded((folder / name).read_bytes()).samples
        assert max(likeness(reference, samples, lag) for lag in range(0, 400, 4)) > 0.9, name


def likeness(reference: Samples, samples: Samples, lag: int) -> float:
    """Correlation with a reference that starts `lag` samples earlier: AAC encoders add up to 25 ms in front."""
    count = min(len(samples) - lag, len(reference))
    return float(np.corrcoef(samples[lag : lag + count], reference[:count])[0, 1])


def test_samples_that_are_not_finite_are_silenced_and_nothing_else_is(folder: Path) -> None:
    content = (folder / "non_finite_float.wav").read_bytes()
    samples = decoded(content).samples
    raw = np.frombuffer(content, "<f4", offset=content.index(b"data") + 8)
    assert not np.isfinite(raw).all()
    np.testing.assert_array_equal(samples, np.where(np.isfinite(raw), raw, 0))
