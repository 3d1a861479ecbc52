"""Simulated devices that the package carries."""

from __future__ import annotations

import wave
from pathlib import Path

import pytest

from volery.bench.profiles import load_profile, profile_names
from volery.bench.simulated import SimulatedModels
from volery.settings import ProviderConfig
from volery.units import PreparedUnit


def test_l4_has_the_ceilings_that_its_figures_give() -> None:
    l4 = load_profile("l4")
    assert l4.ceiling(reuse=False, graphs=False) == pytest.approx(107.35, abs=0.01)
    assert l4.ceiling(reuse=True, graphs=False) == pytest.approx(114.29, abs=0.01)
    assert l4.ceiling(reuse=True, graphs=True) == pytest.approx(121.36, abs=0.01)


def test_l4_is_two_lanes_flights_of_eight_and_five_threads_with_its_own_io() -> None:
    l4 = load_profile("l4")
    assert {name.removeprefix("BATCH_PIPELINE_"): value for name, value in l4.environment.items()} == {
        "LANES": "2",
        "FLIGHT_UNITS": "8",
        "ARTIFACT_IO_THREADS": "5",
    }
    assert str(l4.delays) == "fetch=0.43,publish=0.2,admission=0.05"


def test_its_units_hold_the_audio_that_it_says(tmp_path: Path) -> None:
    units = load_profile("l4").make_units(tmp_path)
    assert len({unit.key for unit in units}) == 248
    with wave.open(units[0].audio_uri.removeprefix("file://")) as file:
        assert file.getnframes() / file.getframerate() * 248 == pytest.approx(7055, abs=0.02)


def test_an_unknown_profile_is_answered_with_those_that_are_known() -> None:
    with pytest.raises(ValueError, match="choose one of l4"):
        load_profile("h100")
    assert profile_names() == ("l4",)


@pytest.mark.parametrize(("reuse", "graphs"), [(True, True), (False, True), (True, False), (False, False)])
def test_simulated_models_say_which_switches_they_run_with(reuse: bool, graphs: bool) -> None:
    provider = ProviderConfig(vad_segmentation_reuse_enabled=reuse, asr_cuda_graphs_enabled=graphs)
    models = SimulatedModels(load_profile("l4"), provider)
    assert models.switch_states() == {
        "vad_segmentation_reuse": "on" if reuse else "off",
        "asr_cuda_graphs": "on" if graphs else "off",
        "vad_recovery": "inapplicable",
    }


def test_a_group_takes_its_units_seconds_on_the_gpu_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    clock = [100.0]

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        clock[0] += seconds + 0.01  # woken late, as on a busy machine

    monkeypatch.setattr("volery.bench.simulated.time.sleep", sleep)
    monkeypatch.setattr("volery.bench.simulated.perf_counter", lambda: clock[0])
    group: list[PreparedUnit] = [object()] * 8  # type: ignore[list-item]
    outcomes = SimulatedModels(load_profile("l4"), ProviderConfig()).process(group)
    assert len(outcomes) == 8
    assert slept == pytest.approx([8 * 0.130, 8 * 0.0641 - 0.01, 8 * 0.0403 - 0.01])
