"""Which device the referee's models go to: it must never take memory that somebody else serves with."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, Protocol

from volery.units import ConfigurationError

Wanted = Literal["auto", "cuda", "cpu"]

FREE_FLOOR_BYTES = 16 << 30
"""What a device must have free to be taken.

A server may be on the same one, growing into what looks free: below this, it and the referee would be
out of memory together. It holds the largest model (about 10 GiB while it decodes). It reserves nothing:
what is free at one moment may be gone at the next.
"""


class Why(StrEnum):
    """Why the models are where they are; `model` says that they run on a CPU only."""

    ASKED = "asked"
    ROOM = "room"
    NO_ROOM = "no_room"
    NO_DEVICE = "no_device"
    MODEL = "model"


@dataclass(frozen=True, slots=True)
class Choice:
    """The device, `cpu` or such as `cuda:3`, and why; `free_bytes` is what that one had free."""

    device: str
    why: Why
    free_bytes: int | None = None

    @property
    def kind(self) -> str:
        """`cuda` or `cpu`."""
        return self.device.partition(":")[0]

    @property
    def fell(self) -> bool:
        """True where only the CPU was left, which takes about six times as long."""
        return self.why in (Why.NO_ROOM, Why.NO_DEVICE)


class Devices(Protocol):
    """The accelerators of this machine."""

    def count(self) -> int:
        """How many there are; asking takes nothing from them."""
        ...

    def free_bytes(self, index: int) -> int:
        """Memory that is free on one. Asking creates a context of about half a GiB on it.

        Raises:
            RuntimeError: it does not answer.
        """
        ...


class TorchDevices:
    """What torch sees: its ROCm builds answer under the names of CUDA too."""

    def count(self) -> int:
        """See `Devices.count`."""
        import torch

        return torch.cuda.device_count() if torch.cuda.is_available() else 0

    def free_bytes(self, index: int) -> int:
        """See `Devices.free_bytes`."""
        import torch

        return int(torch.cuda.mem_get_info(index)[0])


def wanted_device(setting: Wanted | None, *, in_worker: bool) -> Wanted:
    """What the setting means where it is unset: the one accelerator beside a worker is the worker's."""
    return setting or ("cpu" if in_worker else "auto")


def choose(devices: Devices, wanted: Wanted) -> Choice:
    """The first device with room from the highest index down, or else the CPU; `cpu` asks no device.

    The probing stops at the first that has room: going on would take memory and seconds from the
    devices that serve, of which the first is the likeliest.

    Raises:
        ConfigurationError: `cuda` is wanted, and there is none with room.
    """
    if wanted == "cpu":
        return Choice("cpu", Why.ASKED)
    count = devices.count()
    for index in reversed(range(count)):
        free = _free_bytes(devices, index)
        if free >= FREE_FLOOR_BYTES:
            return Choice(f"cuda:{index}", Why.ROOM, free)
    if wanted == "cuda":
        raise ConfigurationError(
            f"BATCH_PIPELINE_REFEREE_DEVICE=cuda, but of {count} accelerators none has {FREE_FLOOR_BYTES >> 30} GiB "
            "free: give the referee one of its own, or use auto or cpu"
        )
    return Choice("cpu", Why.NO_ROOM if count else Why.NO_DEVICE)


def _free_bytes(devices: Devices, index: int) -> int:
    """What is free; nothing on a device that does not answer, so that the next one is asked."""
    try:
        return devices.free_bytes(index)
    except RuntimeError:
        return 0
