"""The assertion on the live decoder: a real NeMo decoder, driven into every state by NeMo's own means.

A graph cannot be captured without a GPU: there, and only there, an object stands in for one.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from volery.speech.decoding_mode import DecodingMode, LiveMode, ModeGuard, computer_of, live_mode
from volery.units import QuarantineError

pytestmark = pytest.mark.models

EAGER = DecodingMode(graphs=False)
GRAPHS = DecodingMode(graphs=True)
PARTIAL = DecodingMode(graphs=True, allow_partial=True)

A_GRAPH = object()


@pytest.fixture(scope="module")
def model_of(nemo_file: Path) -> Callable[[bool], Any]:
    """The tiny model with graphs asked for or not; the same object each time, with a fresh decoder."""
    from nemo.collections.asr.models import ASRModel
    from omegaconf import OmegaConf, open_dict

    model = ASRModel.restore_from(str(nemo_file), map_location="cpu")

    def with_graphs(asked: bool) -> Any:
        decoding = OmegaConf.create(OmegaConf.to_container(model.cfg.decoding))
        with open_dict(decoding):
            decoding.strategy = "greedy_batch"
            decoding.greedy.use_cuda_graph_decoder = asked
        model.change_decoding_strategy(decoding, verbose=False)
        return model

    return with_graphs


def force(computer: Any, mode: str | None) -> None:
    """NeMo's own way to set a mode."""
    computer.force_cuda_graphs_mode(mode)


def test_nemo_sets_a_graph_mode_even_where_there_is_no_gpu(model_of: Callable[[bool], Any]) -> None:
    live = live_mode(computer_of(model_of(True)))
    assert (live.allowed, live.mode, live.captured) == (True, "no_while_loops", False)


@pytest.mark.parametrize(
    ("mode", "asked", "verdict"),
    [
        ("full_graph", EAGER, "the mode is full_graph"),
        ("no_while_loops", EAGER, "the mode is no_while_loops"),
        ("no_graphs", EAGER, None),
        (None, EAGER, None),
        ("full_graph", GRAPHS, None),
        ("no_while_loops", GRAPHS, "the mode is no_while_loops"),
        ("no_graphs", GRAPHS, "the mode is no_graphs"),
        (None, GRAPHS, "the mode is None"),
        ("full_graph", PARTIAL, None),
        ("no_while_loops", PARTIAL, None),
        ("no_graphs", PARTIAL, "the mode is no_graphs"),
        (None, PARTIAL, "the mode is None"),
    ],
)
def test_each_mode_has_its_verdict(
    model_of: Callable[[bool], Any], mode: str | None, asked: DecodingMode, verdict: str | None
) -> None:
    computer = computer_of(model_of(asked.graphs))
    force(computer, mode)
    found = asked.mismatch(live_mode(computer), has_decoded=False)
    assert found is None if verdict is None else verdict in (found or "")


def test_eager_with_graphs_allowed_is_a_mismatch_whatever_the_mode(model_of: Callable[[bool], Any]) -> None:
    computer = computer_of(model_of(True))
    force(computer, None)
    assert "are allowed" in (EAGER.mismatch(live_mode(computer), has_decoded=False) or "")


def test_graphs_that_are_not_allowed_are_a_mismatch_whatever_the_mode(model_of: Callable[[bool], Any]) -> None:
    computer = computer_of(model_of(False))
    force(computer, "full_graph")
    assert "not allowed" in (GRAPHS.mismatch(live_mode(computer), has_decoded=False) or "")


@pytest.mark.parametrize("captured", ["full_graph", "separate_graphs"])
def test_eager_with_a_captured_graph_is_a_mismatch(model_of: Callable[[bool], Any], captured: str) -> None:
    computer = computer_of(model_of(False))
    setattr(computer, captured, A_GRAPH)
    assert "captured" in (EAGER.mismatch(live_mode(computer), has_decoded=False) or "")


@pytest.mark.parametrize(
    ("mode", "captured", "asked", "fits"),
    [
        ("full_graph", None, GRAPHS, False),
        ("full_graph", "separate_graphs", GRAPHS, False),
        ("full_graph", "full_graph", GRAPHS, True),
        ("no_while_loops", None, PARTIAL, False),
        ("no_while_loops", "full_graph", PARTIAL, False),
        ("no_while_loops", "separate_graphs", PARTIAL, True),
    ],
)
def test_graphs_must_really_be_captured_once_something_was_decoded(
    model_of: Callable[[bool], Any], mode: str, captured: str | None, asked: DecodingMode, fits: bool
) -> None:
    computer = computer_of(model_of(True))
    force(computer, mode)
    if captured:
        setattr(computer, captured, A_GRAPH)
    assert (asked.mismatch(live_mode(computer), has_decoded=True) is None) is fits


def test_a_state_without_graphs_is_no_sign_of_graphs(model_of: Callable[[bool], Any]) -> None:
    computer = computer_of(model_of(False))
    computer.state = object()
    assert EAGER.mismatch(live_mode(computer), has_decoded=True) is None


def test_a_silent_fallback_that_is_allowed_is_a_mismatch() -> None:
    live = LiveMode(True, "full_graph", full_captured=False, partial_captured=False, fallback_allowed=True)
    assert "fall back" in (GRAPHS.mismatch(live, has_decoded=False) or "")


def test_the_guard_forbids_the_silent_fallback(model_of: Callable[[bool], Any]) -> None:
    model = model_of(True)
    force(computer_of(model), "full_graph")
    computer_of(model).cuda_graphs_allow_fallback = True
    ModeGuard(model, GRAPHS)
    assert computer_of(model).cuda_graphs_allow_fallback is False


def test_graphs_that_nemo_enables_behind_our_back_are_noticed(model_of: Callable[[bool], Any]) -> None:
    model = model_of(False)
    guard = ModeGuard(model, EAGER)
    guard.check()
    computer_of(model).allow_cuda_graphs = True
    model.on_validation_epoch_start()
    with pytest.raises(QuarantineError, match="decoding_mode: eager decoding was asked for"):
        guard.check()


def test_graphs_that_nemo_disables_behind_our_back_are_noticed(model_of: Callable[[bool], Any]) -> None:
    model = model_of(True)
    force(computer_of(model), "full_graph")
    guard = ModeGuard(model, GRAPHS)
    model.on_train_epoch_start()
    with pytest.raises(QuarantineError, match="the mode is None"):
        guard.check()


def test_a_decoding_strategy_that_is_set_anew_is_noticed_although_its_mode_fits(
    model_of: Callable[[bool], Any],
) -> None:
    guard = ModeGuard(model_of(False), EAGER)
    model_of(False)
    with pytest.raises(QuarantineError, match="not the one that decodes"):
        guard.check()


def test_a_strategy_without_label_looping_is_refused(model_of: Callable[[bool], Any]) -> None:
    from omegaconf import OmegaConf

    model = model_of(False)
    decoding = OmegaConf.create(OmegaConf.to_container(model.cfg.decoding))
    decoding.strategy = "greedy"
    model.change_decoding_strategy(decoding, verbose=False)
    with pytest.raises(QuarantineError, match="label looping"):
        ModeGuard(model, EAGER)


def test_a_wrong_mode_at_startup_is_refused(model_of: Callable[[bool], Any]) -> None:
    with pytest.raises(QuarantineError, match="conditional nodes"):
        ModeGuard(model_of(True), GRAPHS)


def test_each_capture_is_counted_once(model_of: Callable[[bool], Any]) -> None:
    model = model_of(True)
    computer = computer_of(model)
    force(computer, "full_graph")
    guard = ModeGuard(model, GRAPHS)
    for graph in (first := object(), first, object()):
        computer.full_graph = graph
        guard.decoded()
    assert guard.captures == 2


def test_a_batch_decoded_without_a_capture_is_noticed(model_of: Callable[[bool], Any]) -> None:
    model = model_of(True)
    force(computer_of(model), "full_graph")
    guard = ModeGuard(model, GRAPHS)
    with pytest.raises(QuarantineError, match="none was captured"):
        guard.decoded()
