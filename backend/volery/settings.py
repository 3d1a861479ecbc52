"""Every setting of Volery, by group. All are read from `BATCH_PIPELINE_…` variables.

Each group is a `BaseSettings` of its own: in a nested model a name such as
`BATCH_PIPELINE_PREPARE_FLIGHT_ENABLED` would not be seen. pydantic-settings ignores
variables that no group knows, so `check_environment` looks for those.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

import platformdirs
from pydantic import Field, SecretStr, ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, SettingsConfigDict

from volery.units import ConfigurationError

PREFIX = "BATCH_PIPELINE_"
DECLARED = "VOLERY_DECLARED_SETTINGS"
"""Variable in which a chart names the settings that it set, which are no slips, whatever this release knows."""

COMMIT = "^[0-9a-f]{40}$"
SHA256 = "^[0-9a-f]{64}$"


def data_folder() -> Path:
    """The user's data folder, where the embedded store and its artifacts live by default."""
    return Path(platformdirs.user_data_dir("volery", appauthor=False))


class _Group(BaseSettings):
    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="ignore", allow_inf_nan=False)


SwitchClass = Literal["ops_kill", "behaviour"]
"""`ops_kill`: off and on give the same answer. `behaviour`: on may change answers, within the gate."""


def _switch(on: str, *, off: str, kind: SwitchClass, default: bool = True) -> Any:
    """A switch's field: what on does, and what off restores."""
    return Field(default, description=f"{on}; off: {off}.", json_schema_extra={"class": kind, "off_restores": off})


def _revision(whose: str) -> Any:
    """The field of the commit that a model's repository is pinned to."""
    return Field(None, pattern=COMMIT, description=f"Commit that {whose} repository on the hub is pinned to.")


def _digest(model: str) -> Any:
    """The field of the digest that a model is pinned to."""
    said = f"SHA-256 that {model} must have to be loaded; unset: not checked."
    return Field(None, pattern=SHA256, description=said)


class ProviderConfig(_Group):
    """The switches. Read once at startup; a change takes effect with a restart."""

    prepare_flight_enabled: bool = _switch(
        "A waiting lane prepares every leading unit of its flight",
        off="a waiting lane prepares only the first unit of its flight",
        kind="ops_kill",
    )
    vad_segmentation_reuse_enabled: bool = _switch(
        "Diarization takes the VAD pass's segmentation scores",
        off="diarization runs its own segmentation forward",
        kind="ops_kill",
    )
    asr_cuda_graphs_enabled: bool = _switch(
        "Parakeet decodes with CUDA graphs, asserted", off="Parakeet decodes eagerly, asserted", kind="ops_kill"
    )
    vad_recovery_enabled: bool = _switch(
        "A unit that the VAD in use calls silent is transcribed where the other VAD engine is sure of speech",
        off="a unit that the VAD in use calls silent has no words",
        kind="behaviour",
        default=False,
    )


@dataclass(frozen=True, slots=True)
class Switch:
    """What is fixed about one switch: the single source for `volery flags` and for the registry of switches.

    config/feature-flags.yaml adds what only people know (owner, evidence, when to delete it) and is
    checked against this: `setting`, `environment`, `default`, `kind` and `off_restores` come from
    `ProviderConfig` and are written there only.
    """

    setting: str
    default: bool
    kind: SwitchClass
    off_restores: str

    @property
    def name(self) -> str:
        """Its name in logs, in the metric's label and in results."""
        return self.setting.removesuffix("_enabled")

    @property
    def environment(self) -> str:
        """The variable that sets it."""
        return f"{PREFIX}{self.setting}".upper()


def _switch_of(setting: str, field: FieldInfo) -> Switch:
    facts = cast("dict[str, Any]", field.json_schema_extra)
    return Switch(setting, field.default, facts["class"], facts["off_restores"])


SWITCHES: tuple[Switch, ...] = tuple(_switch_of(*one) for one in ProviderConfig.model_fields.items())
"""Every switch, in the order of `ProviderConfig`."""


class QueueSettings(_Group):
    """The job store."""

    database_url: SecretStr = Field(
        default_factory=lambda: SecretStr(f"sqlite:///{data_folder() / 'volery.db'}"),
        description="SQLAlchemy URL of the job store. It may hold a password: never logged.",
    )
    lease_seconds: float = Field(120.0, gt=0, description="How long a lease holds unless it is renewed.")
    max_attempts: int = Field(3, ge=1, description="Attempts charged to a unit before it is dead.")
    retry_base_seconds: float = Field(5.0, ge=0, description="Wait before the second attempt; doubles with each.")
    retry_max_seconds: float = Field(600.0, ge=0, description="Longest wait before another attempt.")


class ArtifactSettings(_Group):
    """Where results go, and how Google Cloud Storage is reached for them and for audio."""

    artifacts_url: str = Field(
        default_factory=lambda: (data_folder() / "artifacts").as_uri(),
        description="Where results are written: file:///… or gs://bucket/prefix.",
    )
    gcs_key_file: Path | None = Field(
        None, description="JSON key of a service account; unset: the machine's own credentials (workload identity)."
    )
    gcs_deadline_seconds: float = Field(
        60.0,
        gt=0,
        description="How long a request to Google Cloud Storage may take, all its retries together. "
        "Audio is fetched in requests of up to 8 MiB.",
    )


class AudioSettings(_Group):
    """Limits enforced while audio is read and decoded."""

    audio_max_seconds: float = Field(7200.0, gt=0, description="Longest unit that is accepted, in decoded seconds.")
    audio_max_bytes: int = Field(4 << 30, gt=0, description="Largest audio file that is read, in bytes.")


class WorkerSettings(_Group):
    """Lanes, budgets and deadlines of one worker process."""

    lanes: int = Field(2, ge=1, le=16, description="Lanes of the worker.")
    flight_units: int = Field(8, ge=1, le=32, description="Units that a lane leases in one pull.")
    decode_budget_seconds: float = Field(
        1800.0, gt=0, description="Audio-seconds that all lanes together may hold as preparations."
    )
    group_seconds: float = Field(
        7200.0, gt=0, description="Audio-seconds that the GPU section may hold decoded: this group and the next."
    )
    artifact_io_threads: int = Field(5, ge=1, description="Threads that fetch, decode and publish.")
    admission_deadline_seconds: float = Field(
        30.0, gt=0, description="A grant that takes longer than this to arrive is refunded."
    )
    drain_seconds: float = Field(300.0, ge=0, description="How long a draining worker may finish its GPU section.")
    poll_seconds: float = Field(2.0, gt=0, description="Wait between pulls while nothing is ready.")
    http_host: str = Field("0.0.0.0", description="Address of the metrics and probe port.")
    http_port: int = Field(9090, ge=0, le=65535, description="Metrics and probe port; 0 picks a free one.")
    quarantine_linger_seconds: float = Field(
        30.0, ge=0, description="How long a quarantined process stays up to be scraped."
    )
    termination_message_path: Path = Field(
        Path("/dev/termination-log"),
        description="Where a quarantine's reason is left for Kubernetes; only a file that exists is written.",
    )
    health_stall_seconds: float = Field(
        15.0, gt=0, description="The event loop counts as stuck after this long without a beat."
    )


class SpeechSettings(_Group):
    """Models and how they run."""

    device: Literal["auto", "cuda", "cpu"] = Field("auto", description="Where the models run.")
    models: Literal["hub", "embedded"] = Field(
        "hub", description="`hub` fetches the production models; `embedded` uses those in installed packages."
    )
    asr_engine: Literal["parakeet", "whisper"] | None = Field(
        None, description="Unset: Parakeet for the hub's models and for `pocket`, Whisper for other embedded models."
    )
    asr_model: str | None = Field(
        None, description="`pocket`, a .nemo path, a folder, or a hub name; unset: the engine's own."
    )
    asr_model_revision: str | None = _revision("the ASR model's")
    asr_model_sha256: str | None = _digest("an ASR model from the hub or a path")
    asr_batch_windows: int = Field(
        8, ge=1, description="Speech windows in one ASR batch; on an accelerator every batch is filled up to it."
    )
    asr_window_seconds: float = Field(30.0, ge=1, le=60, description="Longest speech window handed to ASR.")
    asr_precision: Literal["float32", "bfloat16"] = Field(
        "float32", description="Type of Parakeet's weights on an accelerator; a CPU computes in float32."
    )
    asr_tf32_enabled: bool = Field(False, description="Whether Parakeet may compute float32 products in TF32.")
    asr_cuda_graphs_allow_partial: bool = Field(
        False, description="Accept partial CUDA graphs where full ones cannot be captured."
    )
    vad_engine: Literal["pyannote", "silero"] = Field(
        "pyannote", description="pyannote: its scores can be reused by diarization; silero: nothing to reuse."
    )
    vad_shadow_sample_rate: float = Field(
        0.0,
        ge=0,
        le=1,
        description="Share of units on which the VAD engine that is not in use runs as well, to measure how far "
        "the two disagree; results stay as they are.",
    )
    diarization_model: str | None = Field(
        None, description="`embedded`, a path or a hub name; unset: the embedded models."
    )
    diarization_model_revision: str | None = _revision("the diarization model's")
    diarization_model_sha256: str | None = _digest("a diarization model from the hub or a path")
    speech_batch_windows: int = Field(
        0, ge=0, description="Windows in one segmentation batch; 0: 32 on an accelerator, 4 on a CPU."
    )
    cpu_threads: int = Field(0, ge=0, description="Threads for models on the CPU; 0: as many as the process may use.")


class RefereeSettings(_Group):
    """The second opinion on published words, from Whisper in a process of its own."""

    referee_sample_rate: float = Field(
        0.0, ge=0, le=1, description="Share of published units that are audited, chosen by their keys; 0: none."
    )
    referee_device: Literal["auto", "cuda", "cpu"] | None = Field(
        None,
        description="Where the referee's models run; auto: an accelerator with 16 GiB free, or else the CPU; cuda: "
        "such an accelerator or nothing. Unset: the CPU in a worker, auto elsewhere.",
    )
    referee_model: str | None = Field(
        None,
        description="The model that hears every audited unit: a size such as `small`, a folder, or a hub name, in the "
        "format of CTranslate2 on a CPU and of transformers on an accelerator; unset: the embedded model, or `small`.",
    )
    referee_model_revision: str | None = _revision("the referee's model's")
    referee_model_sha256: str | None = _digest("the referee's model")
    referee_escalation_model: str | None = Field(
        None,
        description="The model that decides where the first disagrees beyond the threshold, named as it is; "
        "unset: the embedded model, or `large-v3`.",
    )
    referee_escalation_model_revision: str | None = _revision("the escalation model's")
    referee_escalation_model_sha256: str | None = _digest("the escalation model")
    referee_threshold: float = Field(
        0.25, ge=0, description="Disagreement, as a word error rate, beyond which the escalation model decides."
    )
    referee_deadline_seconds: float = Field(
        3600.0, gt=0, description="How long the referee may take over one unit before its process is ended."
    )
    referee_queue_units: int = Field(
        16, ge=1, description="Units that may wait for the referee; more are dropped and counted."
    )
    referee_cpu_threads: int = Field(1, ge=1, description="CPU threads that the referee's process may use.")


class LogSettings(_Group):
    """Logging."""

    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field("INFO", description="Least severe level logged.")
    log_format: Literal["auto", "console", "json"] = Field(
        "auto", description="auto: console at a terminal, JSON lines elsewhere."
    )


GROUPS: tuple[type[_Group], ...] = (
    ProviderConfig,
    QueueSettings,
    ArtifactSettings,
    AudioSettings,
    WorkerSettings,
    SpeechSettings,
    RefereeSettings,
    LogSettings,
)


@dataclass(frozen=True)
class Settings:
    """All groups together, read from the environment once."""

    provider: ProviderConfig = field(default_factory=ProviderConfig)
    queue: QueueSettings = field(default_factory=QueueSettings)
    artifacts: ArtifactSettings = field(default_factory=ArtifactSettings)
    audio: AudioSettings = field(default_factory=AudioSettings)
    worker: WorkerSettings = field(default_factory=WorkerSettings)
    speech: SpeechSettings = field(default_factory=SpeechSettings)
    referee: RefereeSettings = field(default_factory=RefereeSettings)
    log: LogSettings = field(default_factory=LogSettings)


def problems_of(error: ValidationError) -> str:
    """What is wrong with the environment, by the names of its variables and without their values."""
    return "; ".join(f"{PREFIX}{'_'.join(map(str, one['loc'])).upper()}: {one['msg']}" for one in error.errors())


def known_names() -> frozenset[str]:
    """The environment variables that some group reads."""
    return frozenset(f"{PREFIX}{name}".upper() for group in GROUPS for name in group.model_fields)


def check_environment(environ: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Names with the prefix that no group knows, for the caller to warn about.

    A newer release's setting is such a name, so only what is surely a slip is refused: a name close to a
    known one that no chart declares to have set, as a newer release's would.

    Raises:
        ConfigurationError: a name is a slip of a known one.
    """
    environ = os.environ if environ is None else environ
    known = known_names()
    names = (name.upper() for name in environ)
    unknown = sorted(name for name in names if name.startswith(PREFIX) and name not in known)
    for name in sorted({*unknown}.difference(environ.get(DECLARED, "").split())):
        for other in sorted(known):
            if _is_slip(name.removeprefix(PREFIX), other.removeprefix(PREFIX)):
                raise ConfigurationError(f"{name} is not a setting; did you mean {other}?")
    return tuple(unknown)


def _is_slip(name: str, known: str) -> bool:
    """Whether a name is a known one with a letter or two wrong, or without its last word."""
    if known in (f"{name}_ENABLED", f"{name}_SECONDS"):
        return True
    letters = 2 if len(known) >= 14 else 1
    return difflib.SequenceMatcher(None, name, known).ratio() >= 1 - letters / len(known)
