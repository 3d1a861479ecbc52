"""The models of an arm: real ones, loaded once where arms agree on them, or simulated ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from volery.bench.profiles import Profile
from volery.bench.receipt import ModelsRecord
from volery.bench.simulated import SimulatedModels
from volery.extras import needed_from
from volery.results import ModelRecord
from volery.settings import Settings
from volery.units import ModelInfo, PreparedUnit, Transcript, UnitError

if TYPE_CHECKING:
    from volery.speech.pipeline import SpeechPipeline


class Models(Protocol):
    """What the bench needs of models: a speech pipeline, or what stands in for one."""

    @property
    def models(self) -> tuple[ModelInfo, ...]:
        """The models, one a role."""
        ...

    def switch_states(self) -> dict[str, str]:
        """The switches that the models know, as they are on the live objects."""
        ...

    def warm_up(self) -> None:
        """Do what the first group would otherwise wait for."""
        ...

    def process(self, group: Sequence[PreparedUnit]) -> list[Transcript | UnitError]:
        """Work through a group."""
        ...


LoadModels = Callable[[Settings], Models]


def simulated_by(profile: Profile) -> LoadModels:
    """A loader of models that sleep as the profile says."""
    return lambda settings: SimulatedModels(profile, settings.provider)


def real_models() -> LoadModels:
    """A loader of the models that the settings ask for; arms that differ in nothing about them share them.

    Raises:
        ConfigurationError: a package that models need is not installed.
    """
    with needed_from("worker,embedded"):
        from volery.speech.pipeline import load_pipeline
    loaded: dict[str, SpeechPipeline] = {}

    def load(settings: Settings) -> Models:
        # Only the worker looks at preparation: it makes no difference to models.
        switches = settings.provider.model_copy(update={"prepare_flight_enabled": True})
        asked = settings.speech.model_dump_json() + switches.model_dump_json()
        if asked not in loaded:
            loaded[asked] = load_pipeline(settings.speech, settings.provider)
        return loaded[asked]

    return load


def as_they_run(models: Models) -> ModelsRecord:
    """What the live objects say of themselves; nothing is taken from settings."""
    asr = getattr(models, "asr", None)
    return ModelsRecord(
        simulated=isinstance(models, SimulatedModels),
        devices=_devices(models),
        precision=_precision(asr),
        decoding_mode=_decoding_mode(asr),
        models={one.role: ModelRecord(name=one.name, source=one.source, digest=one.digest) for one in models.models},
    )


def _devices(models: Models) -> dict[str, str]:
    """The device of each model by role."""
    segmenter = getattr(getattr(models, "vad", None), "segmenter", None)
    asr = getattr(models, "asr", None)
    found = {"segmentation": getattr(segmenter, "model", None), "asr": getattr(asr, "model", None)}
    devices = {role: str(next(model.parameters()).device) for role, model in found.items() if model is not None}
    whisper = getattr(asr, "_model", None)
    return {**devices, "asr": whisper.model.device} if whisper is not None else devices


def _precision(asr: Any) -> str | None:
    """Types of the ASR weights, and whether products may be computed in TF32."""
    if (whisper := getattr(asr, "_model", None)) is not None:
        return str(whisper.model.compute_type)
    model = getattr(asr, "model", None)
    if model is None:
        return None
    import torch

    kinds = sorted({str(parameter.dtype).removeprefix("torch.") for parameter in model.encoder.parameters()})
    return "+".join(kinds) + (" with TF32" if torch.backends.cuda.matmul.allow_tf32 else "")


def _decoding_mode(asr: Any) -> str | None:
    """What the live decoder says: its mode, and whether it captured graphs."""
    guard = getattr(asr, "guard", None)
    if guard is None:
        return None
    live = guard.live
    captured = "full graphs captured" if live.full_captured else "partial graphs captured"
    allowed = "graphs allowed" if live.allowed else "graphs not allowed"
    return f"{live.mode or 'eager'}, {allowed}, {captured if live.captured else 'nothing captured'}"
