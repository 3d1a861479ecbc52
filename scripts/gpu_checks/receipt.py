"""The receipt of a check: what ran, on what, and what became of each check."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from pydantic import BaseModel, ConfigDict

NO_ACCELERATOR = "no accelerator"


class Record(BaseModel):
    """A part of the receipt. Nothing is added to it that it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Status(StrEnum):
    """What became of a check."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_CHECKED = "not_checked"


class Name(StrEnum):
    """The checks, in the order in which they run."""

    EAGER_MODE = "eager_mode"
    GRAPHS_MODE = "graphs_mode"
    WORDS_ALONE_EAGER = "words_alone_and_batched_eager"
    WORDS_ALONE_GRAPHS = "words_alone_and_batched_graphs"
    WORDS_EAGER_GRAPHS = "words_eager_and_graphs"
    CAPTURES = "captures_after_warm_up"
    TIMING = "timing"
    EAGER_GUARD = "eager_guard_bites"
    GRAPHS_GUARD = "graphs_guard_bites"
    MEMORY = "peak_memory"


CUDA_GRAPHS = (
    Name.GRAPHS_MODE,
    Name.WORDS_ALONE_GRAPHS,
    Name.WORDS_EAGER_GRAPHS,
    Name.CAPTURES,
    Name.GRAPHS_GUARD,
)
"""What must pass before CUDA graphs count as checked; timing and memory are figures, not proofs."""


class Check(Record):
    """One check: what it found, or why it failed or could not be made."""

    name: Name
    status: Status
    detail: str


class Versions(Record):
    """What was installed; null where something is absent."""

    volery: str | None
    python: str
    torch: str | None
    cuda: str | None
    cudnn: int | None
    cuda_bindings: str | None
    nemo: str | None
    numpy: str | None


class Machine(Record):
    """The device that decoded, as the driver names it."""

    device: str
    name: str
    compute_capability: str | None
    memory_bytes: int | None
    driver: str | None


class Code(Record):
    """The commit that ran; `dirty` where the code differs from it. Null outside a checkout."""

    commit: str | None
    dirty: bool | None


class Model(Record):
    """The model; `digest` is the SHA-256 of its file."""

    name: str
    source: str
    digest: str


class Sound(Record):
    """What was heard; `sha256` digests the files, in the order of `source`."""

    source: str
    sha256: tuple[str, ...]
    windows: int
    window_seconds: float


class Live(Record):
    """What the live decoder said of itself at a moment."""

    moment: str
    allowed: bool
    mode: str | None
    full_captured: bool
    partial_captured: bool
    fallback_allowed: bool
    captures: int


class Configuration(Record):
    """What ran in one mode, read from the live objects; `weights` are the types found in each part."""

    asked: str
    switch: str
    model_class: str
    decoder_class: str
    parameters: int
    encoder_layers: int
    encoder_width: int
    vocabulary: int
    durations: tuple[int, ...]
    max_symbols: int | None
    weights: dict[str, tuple[str, ...]]
    device: str
    tf32_products: bool
    tf32_convolutions: bool
    autocast: bool
    batch_windows: int
    batch_seconds: float | None
    live: tuple[Live, ...]


class Comparison(Record):
    """The same windows heard twice. Differences name places and figures, never the words."""

    check: Name
    case: str
    windows: int
    words: int
    differences: tuple[str, ...]


class Timing(Record):
    """Seconds of every run over the same windows, in the order they ran, and their medians.

    `ratio` is the median with graphs over the median without, in this run.
    """

    windows: int
    audio_seconds: float
    eager_seconds: tuple[float, ...]
    eager_median: float
    graphs_seconds: tuple[float, ...] = ()
    graphs_median: float | None = None
    ratio: float | None = None


class Memory(Record):
    """Peak bytes of one mode, weights included, from warm-up to the last window; `held_before_bytes` is others'."""

    asked: str
    held_before_bytes: int
    allocated_bytes: int
    reserved_bytes: int


class Receipt(Record):
    """Everything that a check found."""

    made_at: datetime
    cuda_graphs: Status
    cuda_graphs_detail: str
    checks: tuple[Check, ...]
    machine: Machine
    versions: Versions
    code: Code
    model: Model | None
    precision: str
    sound: Sound
    configurations: tuple[Configuration, ...]
    comparisons: tuple[Comparison, ...]
    timing: Timing | None
    memory: tuple[Memory, ...]

    @property
    def failed(self) -> bool:
        """Whether any check failed."""
        return any(check.status is Status.FAILED for check in self.checks)


def verdict(checks: tuple[Check, ...], accelerated: bool) -> tuple[Status, str]:
    """What the checks come to for CUDA graphs: failed before not checked before passed."""
    if not accelerated:
        return Status.NOT_CHECKED, NO_ACCELERATOR
    about = [check for check in checks if check.name in CUDA_GRAPHS]
    for status in (Status.FAILED, Status.NOT_CHECKED):
        if names := [check.name for check in about if check.status is status]:
            return status, ", ".join(names)
    return Status.PASSED, f"{len(about)} checks"
