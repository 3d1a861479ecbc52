"""The checks themselves.

Each step returns what it found, or raises `Failed` or `NotChecked`; whatever else goes wrong fails it too.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from statistics import median
from time import perf_counter

import torch

from gpu_checks import words
from gpu_checks.engines import EAGER, GRAPHS, Opened, Plan, flip_mode, open_engine, replace_decoder, synchronize
from gpu_checks.receipt import NO_ACCELERATOR, Check, Comparison, Configuration, Memory, Model, Name, Status, Timing
from volery.speech.asr import Hypothesis
from volery.speech.decoding_mode import QUARANTINE_REASON
from volery.speech.windows import SpeechWindow
from volery.units import ConfigurationError, QuarantineError

_KEPT = 20
"""Differences of one comparison that are kept."""


class Failed(Exception):
    """A check found what must not be."""


class NotChecked(Exception):
    """A check could not be made."""


@dataclass(frozen=True, slots=True)
class Case:
    """Windows that are heard together: in full batches, or in halved ones as after one that did not fit."""

    name: str
    windows: Sequence[SpeechWindow]
    halved: bool = False

    def heard_by(self, opened: Opened) -> list[Hypothesis]:
        """The windows as that engine hears them."""
        return (opened.hear_halved if self.halved else opened.hear)(self.windows)


class Bench:
    """Both engines side by side, and what was found with them."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.checks: list[Check] = []
        self.comparisons: list[Comparison] = []
        self.configurations: list[Configuration] = []
        self.model: Model | None = None
        self.timing: Timing | None = None
        self.memory: list[Memory] = []
        self._engines: dict[str, Opened] = {}
        self._steps: dict[Name, Callable[[], str]] = {
            Name.EAGER_MODE: lambda: self._mode(EAGER),
            Name.GRAPHS_MODE: lambda: self._mode(GRAPHS),
            Name.WORDS_ALONE_EAGER: lambda: self._alone(Name.WORDS_ALONE_EAGER, self._engine(EAGER), self._batching()),
            Name.WORDS_ALONE_GRAPHS: lambda: self._alone(Name.WORDS_ALONE_GRAPHS, *[self._engine(GRAPHS)] * 2),
            Name.WORDS_EAGER_GRAPHS: self._both_modes,
            Name.CAPTURES: self._captures,
            Name.TIMING: self._times,
            Name.EAGER_GUARD: lambda: self._guard(EAGER),
            Name.GRAPHS_GUARD: lambda: self._guard(GRAPHS),
            Name.MEMORY: self._peaks,
        }

    def run(self) -> None:
        """Make every check. One that fails stops none of the others.

        Raises:
            ConfigurationError: the model cannot be loaded in any mode.
        """
        for name, step in self._steps.items():
            try:
                status, detail = Status.PASSED, step()
            except NotChecked as reason:
                status, detail = Status.NOT_CHECKED, str(reason)
            except (Failed, QuarantineError) as trouble:
                status, detail = Status.FAILED, str(trouble)
            except ConfigurationError:
                raise
            except Exception as error:  # a driver fails in many ways, and each belongs into the receipt
                status, detail = Status.FAILED, f"{type(error).__name__}: {error}"
            self.checks.append(Check(name=name, status=status, detail=detail))

    def _engine(self, name: str) -> Opened:
        if name == GRAPHS and not self.plan.accelerated:
            raise NotChecked(NO_ACCELERATOR)
        if name not in self._engines:
            raise NotChecked(f"the {name} engine did not load")
        return self._engines[name]

    def _batching(self) -> Opened:
        """An eager engine that fills its batches up: a worker's own, but on a CPU that takes windows one by one."""
        eager = self._engine(EAGER)
        return eager if eager.shape else open_engine(self.plan, graphs=False, shape=self.plan.shape)

    def _mode(self, name: str) -> str:
        """Load, warm up and decode in a mode; the live decoder must be in it before and after."""
        if name == GRAPHS and not self.plan.accelerated:
            raise NotChecked(NO_ACCELERATOR)
        opened = open_engine(self.plan, graphs=name == GRAPHS, shape=self.plan.worker_shape)
        self._engines[name] = opened
        info = opened.engine.info
        self.model = Model(name=info.name, source=info.source, digest=info.digest)
        self._assert_live(opened, "loaded", has_decoded=False)
        opened.engine.warm_up()
        self._assert_live(opened, "warmed up", has_decoded=True)
        opened.hear(self.plan.windows)
        self._assert_live(opened, "decoded", has_decoded=True)
        last = opened.live[-1]
        return f"mode {last.mode}, captured: {'yes' if last.full_captured or last.partial_captured else 'no'}"

    def _assert_live(self, opened: Opened, moment: str, *, has_decoded: bool) -> None:
        opened.note(moment)
        if trouble := opened.mismatch(has_decoded=has_decoded and opened.asked.graphs):
            raise Failed(f"{moment}: {trouble}")
        wanted = "inapplicable" if not self.plan.accelerated else "on" if opened.asked.graphs else "off"
        if opened.engine.graphs != wanted:
            raise Failed(f"{moment}: the engine reports the switch {opened.engine.graphs}, not {wanted}")

    def _cases(self) -> Iterator[Case]:
        windows, rows = self.plan.windows, self.plan.shape.windows
        yield Case("one window alone", windows[:1])
        yield Case("a full batch", windows[:rows])
        yield Case("full batches and a partial one", windows)
        if rows > 1:
            yield Case("a partial batch", windows[: rows // 2 + 1])
            yield Case("batches of half the rows", windows[:rows], halved=True)

    def _alone(self, name: Name, alone: Opened, together: Opened) -> str:
        """Each window must be heard beside others as it is heard alone."""
        expected = [alone.hear([window])[0] for window in self.plan.windows]
        for case in self._cases():
            self._compare(name, case, expected[: len(case.windows)], case.heard_by(together))
        return self._verdict(name)

    def _both_modes(self) -> str:
        """Each case must be heard with graphs as it is heard without."""
        eager, graphs = self._engine(EAGER), self._engine(GRAPHS)
        for case in self._cases():
            self._compare(Name.WORDS_EAGER_GRAPHS, case, case.heard_by(eager), case.heard_by(graphs))
        return self._verdict(Name.WORDS_EAGER_GRAPHS)

    def _compare(self, name: Name, case: Case, expected: list[Hypothesis], found: list[Hypothesis]) -> None:
        self.comparisons.append(
            Comparison(
                check=name,
                case=case.name,
                windows=len(case.windows),
                words=words.count(expected),
                differences=tuple(words.differences(expected, found)[:_KEPT]),
            )
        )

    def _verdict(self, name: Name) -> str:
        made = [comparison for comparison in self.comparisons if comparison.check is name]
        for comparison in made:
            if comparison.differences:
                raise Failed(f"{comparison.case}: {comparison.differences[0]}")
        if not (heard := sum(comparison.words for comparison in made)):
            raise NotChecked("no words were heard, so there was nothing to compare")
        return f"{heard} words alike in {len(made)} comparisons"

    def _captures(self) -> str:
        """After the warm-up nothing smaller may be captured anew."""
        graphs = self._engine(GRAPHS)
        warm = next((live.captures for live in graphs.live if live.moment == "warmed up"), 0)
        for case in self._cases():
            case.heard_by(graphs)
            if graphs.engine.guard.captures != warm:
                raise Failed(f"{case.name}: {graphs.engine.guard.captures} captures, {warm} after the warm-up")
        if not warm:
            raise Failed("the warm-up captured nothing")
        return f"{warm} at the warm-up, none after it"

    def _times(self) -> str:
        """Time the ASR stage in turns, first one mode and then the other; a capture in between spoils it."""
        engines = [self._engine(EAGER)]
        with suppress(NotChecked):
            engines.append(self._engine(GRAPHS))
        before = [opened.engine.guard.captures for opened in engines]
        seconds = interleaved(engines, self.plan)
        if before != [opened.engine.guard.captures for opened in engines]:
            raise Failed("a graph was captured while the stage was timed")
        self.timing = _timing(self.plan, seconds)
        if self.timing.ratio is None:
            raise NotChecked(f"{NO_ACCELERATOR if not self.plan.accelerated else 'no graphs'}; only eager was timed")
        return f"graphs take {self.timing.ratio:.3f} of eager's time, medians of {self.plan.repeats} runs each"

    def _guard(self, name: str) -> str:
        """Record what ran; then the engine must refuse to go on in another mode, and with another decoder."""
        opened = self._engine(name)
        self.configurations.append(opened.configuration())
        for change, what in ((flip_mode, "mode"), (replace_decoder, "decoder")):
            change(opened)
            if not _is_quarantined(opened, self.plan.windows[:1]):
                raise Failed(f"the {what} was changed, and the engine went on decoding")
        return "a changed mode and a replaced decoder were each refused"

    def _peaks(self) -> str:
        """Load each mode with nothing beside it and decode: the peak is its own."""
        self._engines.clear()
        if not self.plan.accelerated:
            raise NotChecked(NO_ACCELERATOR)
        for name in (EAGER, GRAPHS):
            self.memory.append(peak(self.plan, name))
        return ", ".join(f"{each.asked} {each.reserved_bytes / 2**30:.2f} GiB reserved" for each in self.memory)


def interleaved(engines: Sequence[Opened], plan: Plan) -> dict[str, list[float]]:
    """Seconds of every run by mode; which goes first changes from turn to turn, so that drift favours neither."""
    seconds: dict[str, list[float]] = {opened.name: [] for opened in engines}
    for turn in range(plan.repeats):
        for opened in engines if turn % 2 == 0 else reversed(engines):
            synchronize(plan.device)
            started = perf_counter()
            opened.hear(plan.windows)
            seconds[opened.name].append(perf_counter() - started)
    return seconds


def peak(plan: Plan, name: str) -> Memory:
    """The peak memory of one mode: its weights, its graphs and what decoding needs, but not what loading needed."""
    gc.collect()
    held = torch.cuda.memory_allocated(plan.device)
    opened = open_engine(plan, graphs=name == GRAPHS, shape=plan.worker_shape)
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats(plan.device)
    opened.engine.warm_up()
    opened.hear(plan.windows)
    return Memory(
        asked=name,
        held_before_bytes=held,
        allocated_bytes=torch.cuda.max_memory_allocated(plan.device),
        reserved_bytes=torch.cuda.max_memory_reserved(plan.device),
    )


def _timing(plan: Plan, seconds: dict[str, list[float]]) -> Timing:
    eager, graphs = seconds[EAGER], seconds.get(GRAPHS, [])
    return Timing(
        windows=len(plan.windows),
        audio_seconds=sum(window.duration_s for window in plan.windows),
        eager_seconds=tuple(eager),
        eager_median=median(eager),
        graphs_seconds=tuple(graphs),
        graphs_median=median(graphs) if graphs else None,
        ratio=median(graphs) / median(eager) if graphs else None,
    )


def _is_quarantined(opened: Opened, windows: Sequence[SpeechWindow]) -> bool:
    try:
        opened.hear(windows)
    except QuarantineError as error:
        return error.reason == QUARANTINE_REASON
    return False
