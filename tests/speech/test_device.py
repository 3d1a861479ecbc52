"""The one device of a worker."""

from __future__ import annotations

from pathlib import Path

import pytest

from volery.units import ConfigurationError

torch = pytest.importorskip("torch", reason="torch is not installed")


@pytest.fixture
def accelerators(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> int:
    """Pretend that torch sees this many: no machine has every number of them."""
    count: int = request.param
    monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    return count


@pytest.mark.parametrize("accelerators", [2], indirect=True)
@pytest.mark.parametrize("wanted", ["auto", "cuda"])
def test_more_than_one_visible_accelerator_is_refused(accelerators: int, wanted: str) -> None:
    from volery.speech.device import choose_device

    with pytest.raises(ConfigurationError, match=r"2 accelerators are visible.*CUDA_VISIBLE_DEVICES"):
        choose_device(wanted)


@pytest.mark.parametrize("accelerators", [0], indirect=True)
def test_cuda_without_an_accelerator_is_refused(accelerators: int) -> None:
    from volery.speech.device import choose_device

    with pytest.raises(ConfigurationError, match="BATCH_PIPELINE_DEVICE=cpu"):
        choose_device("cuda")


@pytest.mark.parametrize(
    ("accelerators", "wanted", "chosen"),
    [(0, "auto", "cpu"), (1, "auto", "cuda:0"), (1, "cuda", "cuda:0"), (1, "cpu", "cpu"), (2, "cpu", "cpu")],
    indirect=["accelerators"],
)
def test_the_device_is_the_one_there_is(accelerators: int, wanted: str, chosen: str) -> None:
    from volery.speech.device import choose_device

    assert str(choose_device(wanted)) == chosen


def test_threads_are_those_asked_for() -> None:
    from volery.speech.device import available_cpus, use_threads

    before = torch.get_num_threads()
    try:
        use_threads(1)
        assert torch.get_num_threads() == 1
        use_threads(0)
        assert torch.get_num_threads() == available_cpus()
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("content", "share"), [("max 100000\n", None), ("150000 100000\n", 2), ("50000 100000\n", 1), ("nonsense", None)]
)
def test_threads_stay_within_the_containers_share(tmp_path: Path, content: str, share: int | None) -> None:
    from volery.speech.device import _container_share

    (tmp_path / "cpu.max").write_text(content)
    assert _container_share(tmp_path / "cpu.max") == share
    assert _container_share(tmp_path / "absent") is None
