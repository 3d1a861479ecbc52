"""Models of the hub: found in its local cache, or fetched into it at the revision that is asked for.

The hub's library is imported only where it is needed; it keeps its cache below `HF_HOME`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog

from volery.speech.models import EVERY_FILE, Kind, Pin, Weights
from volery.units import ConfigurationError

HUB_TIMEOUT_SECONDS = 5.0
"""How long the hub may take to answer before it counts as unreachable."""

HUB_LICENCES = {
    "nvidia/parakeet-tdt-0.6b-v3": "CC BY 4.0",
    "Systran/faster-whisper-small": "MIT",
    "Systran/faster-whisper-large-v3": "MIT",
    "openai/whisper-small": "Apache-2.0",
    "openai/whisper-large-v3": "Apache-2.0",
    "pyannote/speaker-diarization-community-1": "CC BY 4.0",
}
"""Licences of the hub's models that the settings and the documentation name."""

_OTHERWISE = (
    "point {setting} at a local path, or use the models in installed packages with --models embedded "
    "(BATCH_PIPELINE_MODELS=embedded)"
)

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class HubModel:
    """A model of the hub: one `file` of its repository, or, without one, all that `files` match."""

    name: str
    setting: str
    revision: str | None
    pin: Pin | None
    file: str | None = None
    files: tuple[str, ...] = EVERY_FILE
    kind: Kind = field(default="hub", init=False)

    @property
    def licence(self) -> str:
        """As its page on the hub says it, where Volery knows."""
        return HUB_LICENCES.get(self.name, "see its page on the hub")

    def find(self) -> Weights:
        """What the local cache holds of it; the hub is not asked.

        Raises:
            ConfigurationError: it is not in the cache, or not all of it.
        """
        path = self._cached()
        if path is None:
            at = f" at the revision {self.revision}" if self.revision else ""
            raise ConfigurationError(f"the model {self.name}{at} is not in the local cache: run `volery models pull`")
        return self._weights(path)

    def fetch(self, *, again: bool = False) -> Weights:
        """It, from the cache, and from the hub where it is not there; `again`: from the hub in any case.

        Raises:
            ConfigurationError: the hub, the model or the revision cannot be had; says what to do.
        """
        cached = None if again else self._cached()
        weights = self._weights(cached or self._downloaded(again))
        if self.pin is None:
            setting = f"{self.setting}_SHA256"
            log.warning("no digest is pinned: loaded unchecked", model=self.name, pin=setting, sha256=weights.digest)
        return weights

    def _weights(self, path: Path) -> Weights:
        return Weights(self.name, "hub", path, self.pin, self.files)

    def _cached(self) -> Path | None:
        library = _library()
        if self.file is not None:
            found = library.try_to_load_from_cache(self.name, self.file, revision=self.revision)
            return Path(found) if isinstance(found, str) else None
        try:
            return Path(
                library.snapshot_download(
                    self.name, revision=self.revision, allow_patterns=list(self.files), local_files_only=True
                )
            )
        except library.errors.LocalEntryNotFoundError:
            return None

    def _downloaded(self, again: bool) -> Path:
        """Ask once before: the library retries an unreachable hub for many seconds a file."""
        if problem := hub_problem():
            raise self._unreachable(problem)
        library = _library()
        try:
            if self.file is not None:
                got = library.hf_hub_download(self.name, self.file, revision=self.revision, force_download=again)
            else:
                got = library.snapshot_download(
                    self.name, revision=self.revision, allow_patterns=list(self.files), force_download=again
                )
        except Exception as error:  # the network fails in many ways
            raise self._explained(error) from error
        return Path(got)

    def _explained(self, error: Exception) -> ConfigurationError:
        errors = _library().errors
        otherwise = _OTHERWISE.format(setting=self.setting)
        match error:
            case errors.GatedRepoError():
                done = f"accept its conditions on its page there, set HF_TOKEN to one that may read it, or {otherwise}"
                return ConfigurationError(f"the hub does not give {self.name} to everybody: {done}")
            case errors.RepositoryNotFoundError():
                done = f"correct {self.setting}, set HF_TOKEN if it is a private one, or {otherwise}"
                return ConfigurationError(f"the hub has no model {self.name}: {done}")
            case errors.RevisionNotFoundError():
                return ConfigurationError(
                    f"the model {self.name} has no revision {self.revision or 'main'} on the hub: "
                    f"correct {self.setting}_REVISION to a commit of its repository"
                )
            case errors.RemoteEntryNotFoundError():
                what = f"{self.file} in it" if self.file else "what a model of that kind needs"
                return ConfigurationError(f"the model {self.name} has no {what}: correct {self.setting}")
        return self._unreachable(
            f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no details'}"
        )

    def _unreachable(self, problem: str) -> ConfigurationError:
        otherwise = _OTHERWISE.format(setting=self.setting)
        return ConfigurationError(
            f"cannot get the model {self.name} from the hub ({problem}): check the network, the name and HF_TOKEN, "
            f"{otherwise}"
        )


def hub_problem() -> str | None:
    """Why the hub cannot be asked just now; None where it answers."""
    constants = _library().constants
    if constants.HF_HUB_OFFLINE:
        return "HF_HUB_OFFLINE is set and the model is not in the local cache"
    try:
        _library().get_session().head(constants.ENDPOINT, timeout=HUB_TIMEOUT_SECONDS)
    except Exception as error:  # the network fails in many ways
        return f"the hub cannot be reached: {error}"
    return None


def _library() -> Any:
    try:
        import huggingface_hub
        from huggingface_hub import constants, errors  # noqa: F401  # attributes of it once they are imported
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"the hub's library is not installed ({error}): pip install 'volery[worker]'"
        ) from error
    return huggingface_hub
