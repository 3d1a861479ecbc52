"""What a worker says of its switches, in its log, its metrics and its results, is what they are."""

from __future__ import annotations

import asyncio
import json
import wave
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import REGISTRY
from structlog.testing import capture_logs

from volery import app, metrics
from volery.app import WorkerRun, run_worker
from volery.artifacts import open_results
from volery.queue import open_store
from volery.settings import SWITCHES, Settings
from volery.units import Unit
from volery.worker.worker import Ending

ON_A_CPU = {"asr_cuda_graphs": "inapplicable"}


@dataclass
class Readback:
    """The states of switches by name, from each of the three places."""

    logged: list[tuple[str, str]]
    measured: dict[str, list[str]]
    published: dict[str, str]


def readback(folder: Path, monkeypatch: pytest.MonkeyPatch, **environment: str) -> Readback:
    """Run one worker over a second of silence, with the environment of a pod."""
    given = {
        "DATABASE_URL": f"sqlite:///{folder / 'volery.db'}",
        "ARTIFACTS_URL": (folder / "artifacts").as_uri(),
        "DEVICE": "cpu",
        "MODELS": "embedded",
    }
    for name, value in {**given, **environment}.items():
        monkeypatch.setenv(f"BATCH_PIPELINE_{name}", value)
    metrics.SWITCH_STATE.clear()
    with capture_logs() as lines:
        published = asyncio.run(_published(folder))
    logged = [(line["switch"], line["state"]) for line in lines if line["event"] == "switch"]
    return Readback(logged, {switch.name: _measured(switch.name) for switch in SWITCHES}, published)


async def _published(folder: Path) -> dict[str, str]:
    with wave.open(str(folder / "silence.wav"), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16_000)
        file.writeframes(bytes(32_000))
    settings = Settings()
    store = await open_store(settings.queue)
    await store.submit([Unit(key="silence", audio_uri=(folder / "silence.wav").as_uri())])
    assert await run_worker(settings, WorkerRun(burst=True, serve_http=False)) is Ending.FINISHED
    record = await store.get("silence")
    await store.close()
    assert record is not None
    assert record.artifact is not None
    document = json.loads(open_results(settings.artifacts.artifacts_url).read(record.artifact))
    switches: dict[str, str] = document["switches"]
    return switches


def _measured(switch: str) -> list[str]:
    """The states that the metric says a switch is in: one, or it is of no use."""
    [series] = metrics.SWITCH_STATE.describe()
    states = ("on", "off", "inapplicable")
    values = {state: REGISTRY.get_sample_value(series.name, {"switch": switch, "state": state}) for state in states}
    assert set(values.values()) <= {0.0, 1.0}, "a state that a switch is not in is 0, not absent"
    return [state for state, value in values.items() if value == 1.0]


@pytest.mark.models
@pytest.mark.slow
@pytest.mark.parametrize("asr_model", ["", "pocket"], ids=["whisper", "parakeet"])
@pytest.mark.parametrize("alone_off", [None, *(switch.name for switch in SWITCHES)])
def test_every_switch_is_read_back_on_and_off_in_the_log_the_metric_and_the_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alone_off: str | None, asr_model: str
) -> None:
    asked = {switch.name: "off" if switch.name == alone_off else "on" for switch in SWITCHES}
    flags = {switch.setting.upper(): str(asked[switch.name] == "on").lower() for switch in SWITCHES}
    found = readback(tmp_path, monkeypatch, **flags, **({"ASR_MODEL": asr_model} if asr_model else {}))
    expected = {**asked, **ON_A_CPU}
    assert sorted(found.logged) == sorted(expected.items()), "one line a switch"
    assert found.measured == {name: [state] for name, state in expected.items()}
    assert found.published == expected


@pytest.mark.models
def test_reuse_is_inapplicable_where_the_vad_leaves_nothing_to_reuse(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {"VAD_ENGINE": "silero", "VAD_SEGMENTATION_REUSE_ENABLED": "true"}
    found = readback(tmp_path, monkeypatch, **asked)
    assert found.measured["vad_segmentation_reuse"] == ["inapplicable"]
    assert found.published["vad_segmentation_reuse"] == "inapplicable"
    assert ("vad_segmentation_reuse", "inapplicable") in found.logged


class WarmedUp:
    """Models that turn out otherwise than they were asked to be, which shows once they are warm."""

    models = ()

    def __init__(self) -> None:
        self._state = "on"

    def warm_up(self) -> None:
        self._state = "off"

    def switch_states(self) -> dict[str, str]:
        return {"vad_segmentation_reuse": self._state, "asr_cuda_graphs": self._state}

    def process(self, group: Any) -> Any:
        raise AssertionError("there is no unit")


async def test_states_are_read_from_the_models_once_they_are_warm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BATCH_PIPELINE_DATABASE_URL", f"sqlite:///{tmp_path / 'volery.db'}")
    monkeypatch.setenv("BATCH_PIPELINE_ARTIFACTS_URL", (tmp_path / "artifacts").as_uri())
    monkeypatch.setattr(app, "load_pipeline", lambda *_: WarmedUp())
    with capture_logs() as lines:
        await run_worker(Settings(), WorkerRun(burst=True, serve_http=False))
    logged = {line["switch"]: line["state"] for line in lines if line["event"] == "switch"}
    assert logged == {"vad_segmentation_reuse": "off", "asr_cuda_graphs": "off", "prepare_flight": "on"}
    assert _measured("asr_cuda_graphs") == ["off"]
