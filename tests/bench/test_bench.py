"""The bench as a whole: real workers, in turn, over units that nothing transcribes."""

from __future__ import annotations

import asyncio
import json

import pytest

from bench.stubs import QUICK, Models, Trial
from volery.bench.account import differences
from volery.bench.receipt import ModelsRecord, Ran, Receipt
from volery.bench.simulated import SimulatedModels
from volery.settings import Settings, SpeechSettings
from volery.units import ConfigurationError, QuarantineError, Unit
from volery.worker.timeline import Phase


async def test_arms_are_warmed_before_any_is_timed_and_then_run_in_turn(trial: Trial) -> None:
    units = trial.units(*[0.1] * 5)
    await trial.run(trial.plan(units, arms="all-on,all-off,no-prepare", repeats=2))
    assert trial.order == [
        "loading models for all-on",
        "loading models for all-off",
        "loading models for no-prepare",
        "warming all-on",
        "warming all-off",
        "warming no-prepare",
        *(f"{arm} {repeat}" for repeat in (1, 2) for arm in ("all-on", "all-off", "no-prepare")),
    ]
    assert len(trial.ended_units) == 3 * 2 * 5


async def test_an_arm_is_warmed_at_the_largest_flight_of_its_own(trial: Trial) -> None:
    units = trial.units(0.1, 0.5, 0.2, 0.4, 0.3)
    await trial.run(trial.plan(units, arms="all-on,FLIGHT_UNITS=3"))
    warm = [sorted(group) for group in trial.groups[:2]]
    assert warm == [["u1", "u3"], ["u1", "u3", "u4"]]


async def test_a_receipt_holds_every_run_and_the_ratio_of_each_pair(trial: Trial) -> None:
    bench = await trial.run(trial.plan(trial.units(*[0.2] * 5), repeats=3))
    receipt = Receipt.model_validate_json((trial.folder / "receipt.json").read_text())
    assert receipt == bench.receipt()
    assert receipt.complete
    on, off = receipt.arms
    assert len(on.audio_hours_per_gpu_hour.runs) == 3
    assert on.ratio.runs == (1.0, 1.0, 1.0)
    for ratio, one, other in zip(
        off.ratio.runs, off.audio_hours_per_gpu_hour.runs, on.audio_hours_per_gpu_hour.runs, strict=True
    ):
        assert ratio == pytest.approx(one / other, rel=1e-3)


async def test_the_objective_is_published_audio_over_gpu_sections(trial: Trial) -> None:
    units = [*trial.units(0.5, 0.25, 0.25), Unit(key="gone", audio_uri=(trial.folder / "gone.wav").as_uri())]
    await trial.run(trial.plan(units, arms="all-on"))
    [(_, run)] = trial.runs
    sections = [span.ended_s - span.began_s for span in run.spans if span.phase is Phase.GPU_SECTION]
    assert run.figures.audio_seconds == pytest.approx(1.0)
    assert run.figures.audio_hours_per_gpu_hour == pytest.approx(1.0 / sum(sections))
    assert run.figures.units == {"done": 3, "rejected": 1}


async def test_a_unit_that_fails_is_named_with_its_arm_and_reason(trial: Trial) -> None:
    units = [*trial.units(0.1), Unit(key="gone", audio_uri=(trial.folder / "gone.wav").as_uri())]
    bench = await trial.run(trial.plan(units, arms="all-on", repeats=2))
    [arm] = bench.receipt().arms
    assert [(one.repeat, one.key, one.state, one.reason) for one in arm.failed_units] == [
        (1, "gone", "rejected", "audio_missing"),
        (2, "gone", "rejected", "audio_missing"),
    ]


async def test_a_receipt_says_what_ran_and_where_that_is_not_what_was_asked(trial: Trial) -> None:
    class WithoutGraphs(Models):
        def switch_states(self) -> dict[str, str]:
            return {**super().switch_states(), "asr_cuda_graphs": "inapplicable"}

    def load(settings: Settings) -> WithoutGraphs:
        return WithoutGraphs(settings, trial.groups, lambda: None)

    bench = await trial.run(trial.plan(trial.units(*[0.1] * 5), arms="all-on,no-prepare,no-graphs", load=load))
    on, off, without = bench.receipt().arms
    assert on.ran.switches == {
        "prepare_flight": "on",
        "vad_segmentation_reuse": "on",
        "asr_cuda_graphs": "inapplicable",
        "vad_recovery": "inapplicable",
    }
    assert off.ran.switches["prepare_flight"] == "off"
    assert (on.ran.lanes, on.ran.flight_units, on.ran.io_threads, on.ran.largest_flight) == (2, 2, 2, 2)
    assert on.differences == ("asr_cuda_graphs: asked on, ran inapplicable",)
    assert without.differences == ()  # what is off and cannot apply is as asked


@pytest.mark.parametrize(
    ("models", "found"),
    [
        (ModelsRecord(simulated=True, devices={}, precision=None, decoding_mode=None, models={}), []),
        (ModelsRecord(simulated=False, devices={"asr": "cuda:0"}, precision=None, decoding_mode=None, models={}), []),
        (
            ModelsRecord(simulated=False, devices={"asr": "cpu"}, precision="int8", decoding_mode=None, models={}),
            ["device of asr: asked cuda, ran cpu"],
        ),
        (
            ModelsRecord(
                simulated=False, devices={"asr": "cuda:0"}, precision="bfloat16", decoding_mode="eager", models={}
            ),
            ["asr_precision: asked float32, ran bfloat16"],
        ),
    ],
    ids=["simulated", "as asked", "on the wrong device, with a type nobody asks Whisper for", "of another type"],
)
def test_models_that_are_not_as_asked_are_named(models: ModelsRecord, found: list[str]) -> None:
    settings = Settings(speech=SpeechSettings(device="cuda"))
    ran = Ran(
        lanes=2,
        flight_units=8,
        io_threads=5,
        decode_budget_seconds=1800.0,
        section_budget_seconds=7200.0,
        largest_flight=8,
        lanes_seen=2,
        switches={
            **dict.fromkeys(("prepare_flight", "vad_segmentation_reuse", "asr_cuda_graphs"), "on"),
            "vad_recovery": "off",
        },
        models=models,
    )
    assert list(differences(settings, ran)) == found
    assert list(differences(settings, ran.model_copy(update={"lanes": 1}))) == ["lanes: asked 2, ran 1", *found]


async def test_the_results_of_every_run_are_handed_over(trial: Trial) -> None:
    await trial.run(trial.plan(trial.units(*[0.1] * 5), repeats=2))
    assert [(name, sorted(result.key for result in run.results)) for name, run in trial.runs] == [
        (arm, ["u0", "u1", "u2", "u3", "u4"]) for _ in range(2) for arm in ("all-on", "all-off")
    ]


async def test_a_simulated_device_shows_its_ceiling(trial: Trial) -> None:
    plan = trial.plan(QUICK.make_units(trial.folder), profile=QUICK)
    on, off = (await trial.run(plan)).receipt().arms
    assert (on.ceiling, off.ceiling) == (200.0, 100.0)
    assert 0 < on.audio_hours_per_gpu_hour.most <= 200.0


async def test_an_arm_with_a_bad_setting_is_named_before_anything_runs(trial: Trial) -> None:
    with pytest.raises(ConfigurationError, match="arm LANES=0"):
        await trial.run(trial.plan(trial.units(0.1), arms="all-on,LANES=0"))
    assert trial.order == []


async def test_a_quarantine_ends_the_bench_and_leaves_finished_runs_in_the_receipt(trial: Trial) -> None:
    def quarantine_in_the_second_run() -> None:
        if trial.order[-1] == "all-off 1":
            raise QuarantineError("decoding_mode", "it is not what was asked for")

    trial.before = quarantine_in_the_second_run
    with pytest.raises(QuarantineError, match="decoding_mode"):
        await trial.run(trial.plan(trial.units(0.1, 0.1)))
    receipt = json.loads((trial.folder / "receipt.json").read_text())
    assert [arm["name"] for arm in receipt["arms"]] == ["all-on"]
    assert receipt["complete"] is False


async def test_an_interrupted_bench_leaves_finished_runs_in_the_receipt(trial: Trial) -> None:
    loop = asyncio.get_running_loop()

    def interrupt_in_the_second_run() -> None:
        if trial.order[-1] == "all-off 1":
            loop.call_soon_threadsafe(benching.cancel)

    trial.before = interrupt_in_the_second_run
    benching = asyncio.create_task(trial.run(trial.plan(trial.units(*[0.1] * 5))))
    with pytest.raises(asyncio.CancelledError):
        await benching
    receipt = json.loads((trial.folder / "receipt.json").read_text())
    assert [arm["name"] for arm in receipt["arms"]] == ["all-on"]
    assert receipt["complete"] is False


async def test_models_are_told_apart_by_what_the_live_objects_say(trial: Trial) -> None:
    def load(settings: Settings) -> SimulatedModels:
        return SimulatedModels(QUICK, settings.provider)

    bench = await trial.run(trial.plan(trial.units(0.1), arms="all-on", load=load))
    models = bench.receipt().arms[0].ran.models
    assert models.simulated
    assert (models.devices, models.precision, models.decoding_mode) == ({}, None, None)
