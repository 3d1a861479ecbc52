"""Simulated devices: GPU seconds a unit by stage, and the artifact IO beside them."""

from __future__ import annotations

import tomllib
import wave
from importlib import resources
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from volery.bench.delays import IoDelays, fixed
from volery.settings import PREFIX
from volery.units import SAMPLE_RATE, Unit


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class GpuSeconds(_Table):
    """GPU seconds that one unit takes, by stage; the cheaper way of a stage where its switch is on."""

    vad: float = Field(ge=0)
    diarize: float = Field(ge=0)
    diarize_with_reuse: float = Field(ge=0)
    asr: float = Field(ge=0)
    asr_with_graphs: float = Field(ge=0)


class IoSeconds(_Table):
    """Seconds of artifact IO: a fetch, a publication, an admission."""

    fetch: float = Field(ge=0)
    publish: float = Field(ge=0)
    admission: float = Field(ge=0)


class Profile(_Table):
    """A device that is simulated by sleeping, and the work to put through it."""

    name: str
    units: int = Field(ge=1)
    audio_seconds: float = Field(gt=0)
    lanes: int = Field(ge=1)
    flight_units: int = Field(ge=1)
    artifact_io_threads: int = Field(ge=1)
    gpu_seconds: GpuSeconds
    io: IoSeconds

    def stages(self, *, reuse: bool, graphs: bool) -> dict[str, float]:
        """GPU seconds a unit by stage, with the switches as they are."""
        gpu = self.gpu_seconds
        return {
            "vad": gpu.vad,
            "diarize": gpu.diarize_with_reuse if reuse else gpu.diarize,
            "asr": gpu.asr_with_graphs if graphs else gpu.asr,
        }

    def ceiling(self, *, reuse: bool, graphs: bool) -> float:
        """Audio-hours per GPU-section-hour of a worker that never holds the GPU with nothing on it."""
        return self.audio_seconds / self.units / sum(self.stages(reuse=reuse, graphs=graphs).values())

    @property
    def delays(self) -> IoDelays:
        """Artifact IO as it was seen."""
        return IoDelays(fixed(self.io.fetch), fixed(self.io.publish), fixed(self.io.admission))

    @property
    def environment(self) -> dict[str, str]:
        """What the profile says of the worker, as environment variables."""
        return {
            f"{PREFIX}LANES": str(self.lanes),
            f"{PREFIX}FLIGHT_UNITS": str(self.flight_units),
            f"{PREFIX}ARTIFACT_IO_THREADS": str(self.artifact_io_threads),
        }

    def make_units(self, folder: Path) -> list[Unit]:
        """Units of equal length, all of one WAV file of faint noise that is written to `folder`."""
        path = _write_noise(folder / f"{self.name}.wav", self.audio_seconds / self.units)
        return [Unit(key=f"{self.name}-{number:04}", audio_uri=path.as_uri()) for number in range(self.units)]


def profile_names() -> tuple[str, ...]:
    """The profiles that the package carries."""
    files = resources.files(__package__).iterdir()
    return tuple(sorted(file.name.removesuffix(".toml") for file in files if file.name.endswith(".toml")))


def load_profile(name: str) -> Profile:
    """A profile that the package carries.

    Raises:
        ValueError: there is none of this name; the message lists those that are.
    """
    if name not in profile_names():
        raise ValueError(f"there is no profile {name}: choose one of {', '.join(profile_names())}")
    said = tomllib.loads(resources.files(__package__).joinpath(f"{name}.toml").read_text(encoding="utf-8"))
    return Profile.model_validate({"name": name, **said})


def _write_noise(path: Path, seconds: float) -> Path:
    noise = np.random.default_rng(0).integers(-50, 50, round(seconds * SAMPLE_RATE), dtype=np.int16)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(SAMPLE_RATE)
        file.writeframes(noise.tobytes())
    return path.absolute()
