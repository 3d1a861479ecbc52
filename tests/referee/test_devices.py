"""Which device the referee takes, and which it asks: each one asked costs that one memory."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from volery.referee.devices import FREE_FLOOR_BYTES, Choice, TorchDevices, Wanted, Why, choose, wanted_device
from volery.units import ConfigurationError

ROOM = FREE_FLOOR_BYTES
FULL = FREE_FLOOR_BYTES - 1


@dataclass
class FakeDevices:
    """Devices by their free memory, None for one that does not answer; remembers who was asked."""

    free: tuple[int | None, ...]
    asked: list[int] = field(default_factory=list)

    def count(self) -> int:
        return len(self.free)

    def free_bytes(self, index: int) -> int:
        self.asked.append(index)
        free = self.free[index]
        if free is None:
            raise RuntimeError("device does not answer")
        return free


@pytest.mark.parametrize(
    ("free", "device", "why", "asked"),
    [
        pytest.param((ROOM,), "cuda:0", Why.ROOM, [0], id="one with exactly 16 GiB"),
        pytest.param((FULL,), "cpu", Why.NO_ROOM, [0], id="one with a byte less"),
        pytest.param((ROOM + 1,), "cuda:0", Why.ROOM, [0], id="one with more"),
        pytest.param((ROOM, ROOM, ROOM, FULL), "cuda:2", Why.ROOM, [3, 2], id="many with the last full"),
        pytest.param((FULL, FULL, FULL, FULL), "cpu", Why.NO_ROOM, [3, 2, 1, 0], id="many all full"),
        pytest.param((FULL, ROOM, FULL), "cuda:1", Why.ROOM, [2, 1], id="a middle one free"),
        pytest.param((ROOM, ROOM, ROOM, ROOM), "cuda:3", Why.ROOM, [3], id="ties"),
        pytest.param((2 * ROOM, ROOM), "cuda:1", Why.ROOM, [1], id="a lower one with more"),
        pytest.param((ROOM, ROOM, None), "cuda:1", Why.ROOM, [2, 1], id="the last does not answer"),
        pytest.param((None,), "cpu", Why.NO_ROOM, [0], id="one that does not answer"),
        pytest.param((), "cpu", Why.NO_DEVICE, [], id="none"),
    ],
)
def test_the_first_device_with_room_from_the_highest_down_is_taken_and_no_other_is_asked(
    free: tuple[int | None, ...], device: str, why: Why, asked: list[int]
) -> None:
    devices = FakeDevices(free)
    choice = choose(devices, "auto")
    assert (choice.device, choice.why, devices.asked) == (device, why, asked)


def test_no_device_is_asked_where_the_cpu_is_wanted() -> None:
    devices = FakeDevices((ROOM,))
    assert choose(devices, "cpu") == Choice("cpu", Why.ASKED)
    assert devices.asked == []


@pytest.mark.parametrize("free", [(), (FULL, FULL)])
def test_an_accelerator_that_is_insisted_on_and_cannot_be_had_is_refused(free: tuple[int, ...]) -> None:
    with pytest.raises(ConfigurationError, match=f"of {len(free)} accelerators none has 16 GiB free"):
        choose(FakeDevices(free), "cuda")


@pytest.mark.parametrize(
    ("setting", "in_worker", "wanted"),
    [(None, True, "cpu"), (None, False, "auto"), ("auto", True, "auto"), ("cuda", True, "cuda"), ("cpu", False, "cpu")],
)
def test_a_worker_leaves_its_accelerator_alone_unless_told_otherwise(
    setting: Wanted | None, in_worker: bool, wanted: Wanted
) -> None:
    assert wanted_device(setting, in_worker=in_worker) == wanted


def test_torch_is_asked_by_the_names_that_its_cuda_and_rocm_builds_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.setattr("torch.cuda.mem_get_info", lambda index: (ROOM if index == 1 else FULL, 80 << 30))
    assert choose(TorchDevices(), "auto") == Choice("cuda:1", Why.ROOM, ROOM)


def test_a_torch_that_sees_no_accelerator_means_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert choose(TorchDevices(), "auto") == Choice("cpu", Why.NO_DEVICE)
