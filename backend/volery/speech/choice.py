"""Which models the settings ask for, and what they pin them to; nothing is loaded here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from volery.settings import ProviderConfig, SpeechSettings
from volery.speech.hub import HubModel
from volery.speech.models import (
    EMBEDDING,
    EVERY_FILE,
    POCKET,
    POCKET_MODEL,
    SEGMENTATION,
    SILERO,
    TORCH_WHISPER_FILES,
    WHISPER,
    WHISPER_FILES,
    Carried,
    LocalModel,
    Model,
    Pin,
    Weights,
    is_local,
    local_path,
)
from volery.units import ConfigurationError

ASR_SETTING = "BATCH_PIPELINE_ASR_MODEL"
DIARIZATION_SETTING = "BATCH_PIPELINE_DIARIZATION_MODEL"

PARAKEET_ON_HUB = "nvidia/parakeet-tdt-0.6b-v3"
WHISPER_ON_HUB = "Systran/faster-whisper-small"

_INSIDE = "$model/"
_PARTS = ("segmentation", "embedding", "plda")
"""What a diarization pipeline loads; where its configuration leaves one out, pyannote takes it from the hub."""


@dataclass(frozen=True, slots=True)
class Pinned:
    """What the settings pin a model to: a commit of its repository on the hub, its digest, both or neither."""

    revision: str | None = None
    sha256: str | None = None

    def pin(self, setting: str, remedy: str = "run `volery models pull` to fetch it again") -> Pin | None:
        """The digest as a pin, where there is one."""
        if self.sha256 is None:
            return None
        said_by = f"{setting}_SHA256"
        return Pin(self.sha256, said_by, f"{remedy}, or correct {said_by} if this is the one that you trust")

    def refuse(self, setting: str, name: str, *, revision_only: bool = False) -> None:
        """Refuse what cannot apply: it must not look as if it did.

        Raises:
            ConfigurationError: something is pinned.
        """
        if self.revision:
            raise ConfigurationError(f"{setting}_REVISION is set, but {name} does not come from the hub: unset it")
        if self.sha256 and not revision_only:
            raise ConfigurationError(
                f"{setting}_SHA256 is set, but {name} comes from an installed package and is checked against "
                "Volery's own list: unset it"
            )


NOT_PINNED = Pinned()


def asr_pinned(speech: SpeechSettings) -> Pinned:
    """What the settings pin the ASR model to."""
    return Pinned(speech.asr_model_revision, speech.asr_model_sha256)


def diarization_pinned(speech: SpeechSettings) -> Pinned:
    """What the settings pin the diarization pipeline to."""
    return Pinned(speech.diarization_model_revision, speech.diarization_model_sha256)


def engine_of(speech: SpeechSettings) -> Literal["parakeet", "whisper"]:
    """What transcribes; the pocket model is a Parakeet, wherever the other models come from.

    Raises:
        ConfigurationError: Whisper is asked to run a Parakeet.
    """
    if speech.asr_model != POCKET:
        return speech.asr_engine or ("whisper" if speech.models == "embedded" else "parakeet")
    if speech.asr_engine == "whisper":
        raise ConfigurationError(
            "BATCH_PIPELINE_ASR_MODEL=pocket is a Parakeet, which BATCH_PIPELINE_ASR_ENGINE=whisper cannot run: "
            "unset one of them"
        )
    return "parakeet"


def parakeet_model(name: str | None, pinned: Pinned) -> Model:
    """`pocket`, a `.nemo` path or a hub name; None: the hub's Parakeet TDT 0.6B v3.

    Raises:
        ConfigurationError: a path does not exist, or what is pinned cannot apply.
    """
    if name == POCKET:
        return _carried(POCKET_MODEL, pinned, ASR_SETTING)
    if name is not None and is_local(name):
        return _local(name, pinned, ASR_SETTING)
    name = name or PARAKEET_ON_HUB
    file = f"{name.rpartition('/')[2]}.nemo"
    return HubModel(name, ASR_SETTING, pinned.revision, pinned.pin(ASR_SETTING), file=file)


def whisper_model(name: str | None, pinned: Pinned, *, embedded: bool, setting: str = ASR_SETTING) -> Model:
    """A Whisper for CTranslate2: a folder, a size or a hub name; None: the embedded model, or the hub's small one.

    Raises:
        ConfigurationError: a path does not exist, or what is pinned cannot apply.
    """
    if name is None and embedded:
        return _carried(WHISPER, pinned, setting)
    if name is not None and is_local(name):
        return _local(name, pinned, setting, WHISPER_FILES)
    name = _whisper_repository(name or WHISPER_ON_HUB, setting)
    return HubModel(name, setting, pinned.revision, pinned.pin(setting), files=WHISPER_FILES)


def torch_whisper_model(name: str, pinned: Pinned, setting: str) -> Model:
    """A Whisper for torch, as transformers keeps it: a folder, a size or a hub name.

    Raises:
        ConfigurationError: a path does not exist, or what is pinned cannot apply.
    """
    if is_local(name):
        return _local(name, pinned, setting, TORCH_WHISPER_FILES)
    name = name if "/" in name else f"openai/whisper-{name}"
    return HubModel(name, setting, pinned.revision, pinned.pin(setting), files=TORCH_WHISPER_FILES)


def _whisper_repository(name: str, setting: str) -> str:
    """faster-whisper has short names, such as `small`."""
    if "/" in name:
        return name
    from faster_whisper.utils import _MODELS

    if name not in _MODELS:
        raise ConfigurationError(f"{setting}={name} is no Whisper model; sizes are {', '.join(_MODELS)}")
    return str(_MODELS[name])


def diarization_model(name: str | None, pinned: Pinned) -> LocalModel | HubModel | None:
    """A pipeline's folder, its configuration in one, or a hub name; None for the embedded models.

    Raises:
        ConfigurationError: a path does not exist, or what is pinned cannot apply.
    """
    if name is None or name == "embedded":
        pinned.refuse(DIARIZATION_SETTING, "what diarizes")
        return None
    if is_local(name):
        model = _local(name, pinned, DIARIZATION_SETTING)
        return replace(model, path=model.path.parent) if model.path.is_file() else model
    return HubModel(name, DIARIZATION_SETTING, pinned.revision, pinned.pin(DIARIZATION_SETTING))


def second_vad_model(speech: SpeechSettings, provider: ProviderConfig) -> Carried | None:
    """The VAD that is not in use, where a sample of units or every silent one is shown to it; else none."""
    if not (speech.vad_shadow_sample_rate or provider.vad_recovery_enabled):
        return None
    return SILERO if speech.vad_engine == "pyannote" else SEGMENTATION


def chosen_models(speech: SpeechSettings, provider: ProviderConfig) -> tuple[tuple[str, Model], ...]:
    """Every model that a worker with these settings loads, by role: vad, segmentation, embedding, asr, second_vad.

    Raises:
        ConfigurationError: settings contradict each other, or a path does not exist.
    """
    pipeline = diarization_model(speech.diarization_model, diarization_pinned(speech))
    second = second_vad_model(speech, provider)
    return (
        ("vad", SEGMENTATION if speech.vad_engine == "pyannote" else SILERO),
        ("segmentation", pipeline or SEGMENTATION),
        ("embedding", pipeline or EMBEDDING),
        ("asr", asr_model(speech)),
        *([("second_vad", second)] if second else []),
    )


def asr_model(speech: SpeechSettings) -> Model:
    """The model that transcribes.

    Raises:
        ConfigurationError: settings contradict each other, or a path does not exist.
    """
    embedded, pinned = speech.models == "embedded", asr_pinned(speech)
    if engine_of(speech) == "whisper":
        return whisper_model(speech.asr_model, pinned, embedded=embedded)
    return parakeet_model(speech.asr_model or (POCKET if embedded else None), pinned)


def checked_pipeline(weights: Weights) -> Weights:
    """A diarization pipeline whose digest is the pinned one, and which loads nothing that the digest does not cover.

    Raises:
        ConfigurationError: it is another one, or loads something from elsewhere; only where a digest is pinned.
    """
    weights.checked()
    if weights.pin is not None and (outside := elsewhere(weights.path)):
        raise ConfigurationError(
            f"the pipeline {weights.name} is not loaded: {weights.pin.said_by} is set, but it takes models from "
            f"outside {weights.path} ({'; '.join(outside)}): put them into its folder and name them $model/…, "
            f"or unset {weights.pin.said_by}"
        )
    return weights


def elsewhere(folder: Path) -> tuple[str, ...]:
    """What a diarization pipeline loads from outside its folder, and a digest of it does not cover.

    Raises:
        ConfigurationError: its configuration cannot be read.
    """
    import yaml

    path = folder / "config.yaml"
    try:
        params = yaml.safe_load(path.read_text(encoding="utf-8"))["pipeline"].get("params", {})
    except Exception as error:  # anything may be in it
        raise ConfigurationError(f"{path} cannot be read as a pipeline: {type(error).__name__}: {error}") from error
    return tuple(_outside(params))


def _outside(params: dict[str, Any]) -> Iterator[str]:
    for part in _PARTS:
        said = params.get(part, "pyannote's own on the hub")
        inside = isinstance(said, str) and said.startswith(_INSIDE) and "@" not in said
        if not inside or any(one == "" or one.startswith(".") for one in said.split("/")):
            yield f"{part}: {said}"


def _carried(model: Carried, pinned: Pinned, setting: str) -> Carried:
    pinned.refuse(setting, model.name)
    return model


def _local(name: str, pinned: Pinned, setting: str, files: tuple[str, ...] = EVERY_FILE) -> LocalModel:
    pinned.refuse(setting, name, revision_only=True)
    pin = pinned.pin(setting, "put the right one there")
    return LocalModel(Path(name).name, local_path(name, setting), pin, files)
