"""From an arm's finished runs to its record in the receipt."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from volery.bench.arms import Arm
from volery.bench.models import Models
from volery.bench.profiles import Profile
from volery.bench.receipt import ArmRecord, Figures, Ran, Spread
from volery.bench.run import Run
from volery.settings import SWITCHES, Settings


@dataclass
class ArmRuns:
    """An arm with what it needs and its finished runs."""

    arm: Arm
    settings: Settings
    models: Models
    runs: list[Run] = field(default_factory=list)


def arm_record(arm: ArmRuns, first: ArmRuns, asked: Mapping[str, str], profile: Profile | None) -> ArmRecord:
    """The record of an arm that has finished at least one run, its ratio taken to the first arm."""
    figures, ran = [run.figures for run in arm.runs], arm.runs[-1].ran

    def spread(of: Callable[[Figures], float]) -> Spread:
        return Spread.of([of(one) for one in figures])

    cuda = [one.cuda_peak_bytes for one in figures if one.cuda_peak_bytes is not None]
    return ArmRecord(
        name=arm.arm.name,
        asked=dict(asked),
        ran=ran,
        differences=tuple(differences(arm.settings, ran)),
        audio_hours_per_gpu_hour=spread(lambda one: one.audio_hours_per_gpu_hour),
        ratio=Spread.of(ratios(arm.runs, first.runs)),
        ceiling=_ceiling(profile, ran) if profile else None,
        gpu_busy_seconds=spread(lambda one: one.gpu_busy_seconds),
        gpu_section_seconds=spread(lambda one: one.gpu_section_seconds),
        gpu_held_idle_seconds=spread(lambda one: one.gpu_held_idle_seconds),
        wall_seconds=spread(lambda one: one.wall_seconds),
        gpu_idle_seconds=spread(lambda one: one.gpu_idle_seconds),
        gpu_idle_share=spread(lambda one: one.gpu_idle_share),
        stage_seconds={
            stage: Spread.of([one.stage_seconds[stage] for one in figures]) for stage in figures[0].stage_seconds
        },
        peak_rss_bytes=spread(lambda one: one.peak_rss_bytes),
        cuda_peak_bytes=Spread.of(cuda) if cuda else None,
        budget_high_water_seconds=spread(lambda one: one.budget_high_water_seconds),
        runs=tuple(figures),
        failed_units=tuple(failed for run in arm.runs for failed in run.failed),
    )


def ratios(runs: Sequence[Run], first: Sequence[Run]) -> list[float]:
    """Each run's objective to the first arm's of the same repeat; 0 where that has none."""
    pairs = zip((run.figures for run in runs), (run.figures for run in first), strict=False)
    return [
        one.audio_hours_per_gpu_hour / other.audio_hours_per_gpu_hour if other.audio_hours_per_gpu_hour else 0.0
        for one, other in pairs
    ]


def differences(settings: Settings, ran: Ran) -> Iterator[str]:
    """Where the configuration that was asked for and the one that ran differ, in words."""
    asked = {switch.name: "on" if getattr(settings.provider, switch.setting) else "off" for switch in SWITCHES}
    for name, wanted, live in (
        *((name, state, ran.switches.get(name, "unknown")) for name, state in asked.items()),
        ("lanes", settings.worker.lanes, ran.lanes),
        ("flight_units", settings.worker.flight_units, ran.flight_units),
        ("artifact_io_threads", settings.worker.artifact_io_threads, ran.io_threads),
        ("decode_budget_seconds", settings.worker.decode_budget_seconds, ran.decode_budget_seconds),
        ("group_seconds", settings.worker.group_seconds, ran.section_budget_seconds),
        *_model_differences(settings, ran),
    ):
        if wanted != live and (wanted, live) != ("off", "inapplicable"):
            yield f"{name}: asked {wanted}, ran {live}"


def _model_differences(settings: Settings, ran: Ran) -> Iterator[tuple[str, str, str]]:
    if ran.models.simulated:
        return
    if settings.speech.device != "auto":
        for role, device in ran.models.devices.items():
            yield f"device of {role}", settings.speech.device, device.partition(":")[0]
    if ran.models.precision and ran.models.decoding_mode:  # the setting is Parakeet's alone
        wanted = settings.speech.asr_precision + (" with TF32" if settings.speech.asr_tf32_enabled else "")
        yield "asr_precision", wanted, ran.models.precision


def _ceiling(profile: Profile, ran: Ran) -> float:
    reuse, graphs = (ran.switches[name] == "on" for name in ("vad_segmentation_reuse", "asr_cuda_graphs"))
    return round(profile.ceiling(reuse=reuse, graphs=graphs), 3)
