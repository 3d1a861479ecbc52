"""The decoding mode that was asked for, asserted on the live NeMo decoder.

NeMo changes the mode by itself: around training, validation and prediction, when a decoding
strategy is set anew, and, silently, where a capture fails. A mode that is set proves little on its
own: `maybe_enable_cuda_graphs` sets one on machines without a GPU too, while plain PyTorch decodes.
So the live object is read, before and after every transcription, and any difference from what was
asked for, in either direction, quarantines the process.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from volery import metrics
from volery.units import QuarantineError

FULL_GRAPH = "full_graph"
PARTIAL_GRAPHS = "no_while_loops"
NO_GRAPHS = "no_graphs"

QUARANTINE_REASON = "decoding_mode"


@dataclass(frozen=True, slots=True)
class LiveMode:
    """What the live decoder says of itself. `state` is left out on purpose: it is set without graphs too."""

    allowed: bool
    mode: str | None
    full_captured: bool
    partial_captured: bool
    fallback_allowed: bool

    @property
    def captured(self) -> bool:
        """Whether any graph was captured."""
        return self.full_captured or self.partial_captured


def live_mode(computer: Any) -> LiveMode:
    """Read a `GreedyBatchedTDTLabelLoopingComputer`."""
    mode = computer.cuda_graphs_mode
    return LiveMode(
        allowed=bool(computer.allow_cuda_graphs),
        mode=None if mode is None else str(getattr(mode, "value", mode)),
        full_captured=computer.full_graph is not None,
        partial_captured=computer.separate_graphs is not None,
        fallback_allowed=bool(computer.cuda_graphs_allow_fallback),
    )


@dataclass(frozen=True, slots=True)
class DecodingMode:
    """What the decoder must be: eager or with CUDA graphs, partial ones only where that is allowed.

    Eager is graphs disallowed, mode `None` or `no_graphs`, and nothing captured. Anything stricter
    would refuse decoders that are eager; anything looser would call others so.
    """

    graphs: bool
    allow_partial: bool = False

    def mismatch(self, live: LiveMode, *, has_decoded: bool) -> str | None:
        """How the live decoder differs from what was asked for, or None.

        `has_decoded` says that it has decoded on an accelerator: with graphs, it must have captured.
        """
        return self._graphs_mismatch(live, has_decoded) if self.graphs else self._eager_mismatch(live)

    def _eager_mismatch(self, live: LiveMode) -> str | None:
        if live.allowed:
            return "eager decoding was asked for, but CUDA graphs are allowed"
        if live.mode not in (None, NO_GRAPHS):
            return f"eager decoding was asked for, but the mode is {live.mode}"
        if live.captured:
            return "eager decoding was asked for, but graphs were captured"
        return None

    def _graphs_mismatch(self, live: LiveMode, has_decoded: bool) -> str | None:
        modes = (FULL_GRAPH, PARTIAL_GRAPHS) if self.allow_partial else (FULL_GRAPH,)
        if not live.allowed:
            return "CUDA graphs were asked for, but are not allowed"
        if live.mode not in modes:
            return f"CUDA graphs in mode {' or '.join(modes)} were asked for, but the mode is {live.mode}{_hint(live)}"
        if live.fallback_allowed and not self.allow_partial:
            return "CUDA graphs were asked for, but the decoder may silently fall back to partial ones"
        if has_decoded and not (live.full_captured if live.mode == FULL_GRAPH else live.partial_captured):
            return f"CUDA graphs were asked for and decoding is over, but none was captured in mode {live.mode}"
        return None


def _hint(live: LiveMode) -> str:
    """What to do where NeMo found no full graphs: it says why in its own log."""
    if live.mode != PARTIAL_GRAPHS:
        return ""
    return (
        ": this driver or cuda-bindings has no conditional nodes; update them, set "
        "BATCH_PIPELINE_ASR_CUDA_GRAPHS_ALLOW_PARTIAL=true, or BATCH_PIPELINE_ASR_CUDA_GRAPHS_ENABLED=false"
    )


class ModeGuard:
    """Holds a NeMo model to a decoding mode and counts the graphs that it captures.

    The object that decodes is looked up anew each time and must be the one that was pinned: a
    decoding strategy that was set anew has put another in its place.
    """

    def __init__(self, model: Any, wanted: DecodingMode) -> None:
        self._model = model
        self._wanted = wanted
        self._pinned = computer_of(model)
        self._pinned.cuda_graphs_allow_fallback = wanted.graphs and wanted.allow_partial
        self._graph: object | None = None
        self._has_decoded = False
        self.captures = 0
        self.check()

    @property
    def live(self) -> LiveMode:
        """The mode of the object that decodes, as it is now."""
        return live_mode(computer_of(self._model))

    @property
    def state(self) -> Literal["on", "off"]:
        """Whether the live decoder runs CUDA graphs."""
        live = self.live
        return "on" if live.allowed and live.mode not in (None, NO_GRAPHS) else "off"

    def check(self) -> None:
        """Raise `QuarantineError` unless the live decoder is what was pinned and in the mode asked for."""
        trouble = None
        if computer_of(self._model) is not self._pinned:
            trouble = "the decoder that was pinned at startup is not the one that decodes"
        if trouble := trouble or self._wanted.mismatch(self.live, has_decoded=self._has_decoded):
            raise QuarantineError(QUARANTINE_REASON, trouble)

    def decoded(self) -> None:
        """Note that a batch was decoded on an accelerator, count a new capture, and check.

        A decoder that captures anew makes new graph objects.
        """
        self._has_decoded = self._wanted.graphs
        graph = self._pinned.full_graph or self._pinned.separate_graphs
        if graph is not None and graph is not self._graph:
            self._graph = graph
            self.captures += 1
            metrics.GRAPH_CAPTURES.inc()
        self.check()


def decode_by_steps(computer: Any) -> None:
    """Let an eager decoder of batches take the steps that graphs are captured from, one after the other.

    NeMo's own plain loop (`torch_impl`) gives a token that it has found another duration for each step that it goes
    on looking for those of other rows: where a word ends would depend on its neighbours, and differ from graphs.
    """
    plain = computer.torch_impl

    def by_steps(**arguments: Any) -> Any:
        steps = computer.cuda_graphs_mode is computer.CudaGraphsMode.NO_GRAPHS
        return (computer.cuda_graphs_impl if steps else plain)(**arguments)

    computer.force_cuda_graphs_mode(NO_GRAPHS)
    computer.torch_impl = by_steps  # on a CPU it is asked whatever the mode is


def computer_of(model: Any) -> Any:
    """The object that decodes, as it is now.

    Raises:
        QuarantineError: there is none: some other decoding strategy is in place.
    """
    computer = getattr(getattr(model.decoding, "decoding", None), "decoding_computer", None)
    if computer is None:
        raise QuarantineError(QUARANTINE_REASON, "the model's decoding is not batched greedy label looping")
    return computer
