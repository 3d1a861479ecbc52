"""Which models the referee's settings ask for, in the format of the device that they go to; nothing is loaded here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from volery.referee.devices import Choice, Devices, Wanted, Why, choose
from volery.settings import Settings
from volery.speech.choice import Pinned, torch_whisper_model, whisper_model
from volery.speech.models import Model, is_local
from volery.units import ConfigurationError

CPU_FILE = "model.bin"
TORCH_FILE = "model.safetensors"


@dataclass(frozen=True, slots=True)
class Asked:
    """One model as the settings ask for it; no name means the embedded one."""

    setting: str
    name: str | None
    pinned: Pinned

    @property
    def cpu_only(self) -> bool:
        """Whether there is nothing of it that torch could open."""
        if self.name is None:
            return True
        return is_local(self.name) and not (Path(self.name).expanduser() / TORCH_FILE).exists()

    def model(self, kind: str) -> Model:
        """It, for a kind of device: CTranslate2 runs on a `cpu`, torch on `cuda`.

        Raises:
            ConfigurationError: a path does not exist, or what is pinned cannot apply.
        """
        if kind == "cuda" and self.name is not None:
            return torch_whisper_model(self.name, self.pinned, self.setting)
        return whisper_model(self.name, self.pinned, embedded=True, setting=self.setting)


def asked_models(settings: Settings) -> tuple[Asked, Asked]:
    """The model that hears every unit, and the one that decides."""
    referee, embedded = settings.referee, settings.speech.models == "embedded"
    first, second = (None, None) if embedded else ("small", "large-v3")
    return (
        Asked(
            "BATCH_PIPELINE_REFEREE_MODEL",
            referee.referee_model or first,
            Pinned(referee.referee_model_revision, referee.referee_model_sha256),
        ),
        Asked(
            "BATCH_PIPELINE_REFEREE_ESCALATION_MODEL",
            referee.referee_escalation_model or second,
            Pinned(referee.referee_escalation_model_revision, referee.referee_escalation_model_sha256),
        ),
    )


def choose_for(asked: tuple[Asked, ...], devices: Devices, wanted: Wanted) -> Choice:
    """The device for these models; no device is asked where one of them runs on a CPU only.

    Raises:
        ConfigurationError: `cuda` is wanted and cannot be had.
    """
    if wanted == "cpu" or not any(one.cpu_only for one in asked):
        return choose(devices, wanted)
    if wanted == "cuda":
        settings = " and ".join(one.setting for one in asked if one.cpu_only)
        raise ConfigurationError(
            f"BATCH_PIPELINE_REFEREE_DEVICE=cuda, but what {settings} asks for runs on a CPU only: "
            "name models of transformers there, or use auto or cpu"
        )
    return Choice("cpu", Why.MODEL)


def chosen_models(settings: Settings) -> tuple[tuple[str, Model], ...]:
    """Every model of the referee, by role, where units are audited; else none.

    They are those for the CPU, where the referee of a worker runs, unless the settings say `cuda`:
    what `auto` comes to is known only when the models are loaded.

    Raises:
        ConfigurationError: a path does not exist, or what is pinned cannot apply.
    """
    if not settings.referee.referee_sample_rate:
        return ()
    kind = "cuda" if settings.referee.referee_device == "cuda" else "cpu"
    first, second = (one.model(kind) for one in asked_models(settings))
    return (("referee", first), *([("referee_escalation", second)] if second != first else []))
