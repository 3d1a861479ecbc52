"""Lanes on a virtual clock: a loop whose time jumps, and simulated threads, store and audio around the real worker.

Nothing waits, so a simulated hour takes milliseconds, and the same case is the same run every time.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import logging
import selectors
import weakref
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, TypeVar
from unittest import mock

import numpy as np
import structlog

from volery.audio import Decoded
from volery.queue.store import Counts, Publication
from volery.settings import AudioSettings, WorkerSettings
from volery.units import (
    SAMPLE_RATE,
    Clip,
    Lease,
    PreparedUnit,
    QuarantineError,
    Reason,
    RefundReason,
    ResultClass,
    StoreError,
    Transcript,
    Unit,
    UnitError,
    UnitFailed,
    UnitRejected,
    UnitState,
)
from volery.worker.budget import DecodeBudget, Hold
from volery.worker.io_threads import IoQueue, Work
from volery.worker.leases import HeldLease, LeaseKeeper
from volery.worker.timeline import Phase, Span
from volery.worker.worker import Ending, Worker

T = TypeVar("T")

FOREVER = 2e4
"""Virtual seconds after which lanes count as stuck."""


class Standstill(Exception):
    """Nothing is left that could ever happen."""


class _Jumping(selectors.SelectSelector):
    """Instead of waiting, lets time jump."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None:
            raise Standstill
        self.now += timeout
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time passes only where every task waits for it."""

    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now


def run_virtually(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on a virtual clock of its own."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


class Clock:
    """The virtual time, on the loop and inside the call of a simulated thread, which `spend`s it."""

    def __init__(self) -> None:
        self._spent: float | None = None

    def __call__(self) -> float:
        return asyncio.get_running_loop().time() + (self._spent or 0.0)

    def spend(self, seconds: float) -> None:
        """Let a thread's call take time."""
        assert self._spent is not None, "only a thread's call takes time"
        self._spent += seconds

    def run(self, future: Future[T], call: Callable[[], T], done: Callable[[], None]) -> None:
        """Make a call; its outcome arrives once the time that it spent is over."""
        asyncio.get_running_loop().call_soon(self._make, future, call, done)

    def _make(self, future: Future[T], call: Callable[[], T], done: Callable[[], None]) -> None:
        self._spent = 0.0
        outcome = _outcome(future, call)
        seconds, self._spent = self._spent, None
        asyncio.get_running_loop().call_later(seconds, _arrive, outcome, done)
        del future, call, outcome  # an exception's traceback keeps this frame, and must not keep itself


def _outcome(future: Future[T], call: Callable[[], T]) -> Callable[[], None]:
    try:
        return partial(future.set_result, call())
    except BaseException as error:
        return partial(future.set_exception, error)
    finally:
        del future, call


def _arrive(outcome: Callable[[], None], done: Callable[[], None]) -> None:
    outcome()
    done()


class VirtualGpu:
    """The GPU thread: one call at a time, in order."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._calls: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._busy = False

    def submit(self, call: Callable[[], T]) -> Future[T]:
        future: Future[T] = Future()
        self._calls.append((future, call))
        self._serve()
        return future

    def _serve(self) -> None:
        while self._calls and not self._busy:
            future, call = self._calls.popleft()
            if future.set_running_or_notify_cancel():
                self._busy = True
                self._clock.run(future, call, self._done)

    def _done(self) -> None:
        self._busy = False
        self._serve()


class VirtualIo:
    """The IO threads: the real queue, served without threads."""

    def __init__(self, clock: Clock, threads: int) -> None:
        self.threads = threads
        self._clock = clock
        self._idle = threads
        self._queue = IoQueue()
        self._closed = False

    def submit(self, work: Work, call: Callable[..., T], *args: Any) -> Future[T]:
        future: Future[T] = Future()
        self._queue.put(work, (future, partial(call, *args)))
        self._serve()
        return future

    def close(self) -> None:
        for _, (future, _) in iter(self._queue.take, None):
            future.cancel()

    def _serve(self) -> None:
        while self._idle and (taken := self._queue.take()) is not None:
            work, (future, call) = taken
            if future.set_running_or_notify_cancel():
                self._idle -= 1
                self._clock.run(future, call, partial(self._done, work))
            else:
                self._queue.done(work)

    def _done(self, work: Work) -> None:
        self._idle += 1
        self._queue.done(work)
        self._serve()


Fate = Literal["done", "missing", "unavailable", "broken", "speech_failed", "breaks_its_group", "quarantines"]


@dataclass(frozen=True)
class VirtualUnit:
    """One unit's audio, what its container claims of it, and what becomes of it. All in seconds."""

    seconds: float = 28.0
    claims: float | None = None
    clip: Clip | None = None
    fetch_s: float = 0.0
    decode_s: float = 0.0
    gpu_s: float = 0.0
    publish_s: float = 0.0
    fate: Fate = "done"


@dataclass
class _Row:
    unit: Unit
    state: UnitState = UnitState.READY
    attempts: int = 0
    token: str | None = None
    expires_at: float = 0.0


class VirtualStore:
    """A job store that keeps the promises of `JobStore` by the virtual clock; every call takes a while."""

    def __init__(self, units: Sequence[Unit], clock: Clock, admission_s: float, call_s: float) -> None:
        self.rows = {unit.key: _Row(unit) for unit in units}
        self.away_until = -1.0
        self.endings: dict[str, str] = {}
        self.published: list[str] = []
        self.known_lost: set[str] = set()
        self._clock = clock
        self._admission_s, self._call_s = admission_s, call_s
        self._granted = 0

    async def pull(self, worker: str, limit: int, lease_seconds: float) -> list[Lease]:
        await self._takes(self._admission_s)
        ready = [row for row in self.rows.values() if row.state is UnitState.READY][:limit]
        for row in ready:
            self._granted += 1
            row.state, row.token = UnitState.LEASED, f"t{self._granted}"
            row.expires_at = self._clock() + lease_seconds
        return [Lease(str(row.token), row.unit, row.expires_at, row.attempts) for row in ready]

    async def wait_for_work(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def renew(self, tokens: Sequence[str], lease_seconds: float) -> frozenset[str]:
        await self._takes(self._call_s)
        held = self._held(tokens)
        for row in held:
            row.expires_at = self._clock() + lease_seconds
        return frozenset(str(row.token) for row in held)

    async def complete(self, publications: Sequence[Publication]) -> frozenset[str]:
        assert self.known_lost.isdisjoint(one.token for one in publications), "a lost lease publishes nothing"
        await self._takes(self._call_s)
        held = self._held([one.token for one in publications])
        done = frozenset(str(row.token) for row in held)
        for row in held:
            self.published.append(row.unit.key)
            self._end(row, UnitState.DONE, "done")
        return done

    async def get(self, key: str) -> None:
        """Of a unit whose commit failed: it names no result, since a store that is away does nothing."""
        await self._takes(self._call_s)

    async def reject(self, token: str, reason: Reason, error: str) -> bool:
        await self._takes(self._call_s)
        held = self._held([token])
        for row in held:
            self._end(row, UnitState.REJECTED, "rejected")
        return bool(held)

    async def fail(self, token: str, reason: Reason, error: str) -> UnitState | None:
        await self._takes(self._call_s)
        for row in self._held([token]):
            row.attempts += 1
            self._end(row, UnitState.DEAD if row.attempts == 3 else UnitState.READY, "failed")
            return row.state
        return None

    async def refund(self, tokens: Sequence[str], reason: RefundReason) -> frozenset[str]:
        await self._takes(self._call_s)
        held = self._held(tokens)
        back = frozenset(str(row.token) for row in held)
        for row in held:
            self._end(row, UnitState.READY, f"refund:{reason}")
        return back

    async def reap(self) -> int:
        await self._takes(self._call_s)
        lapsed = [row for row in self.rows.values() if row.token is not None and row.expires_at <= self._clock()]
        for row in lapsed:
            self._end(row, UnitState.READY, "expired")
        return len(lapsed)

    async def counts(self) -> Counts:
        await self._takes(self._call_s)
        states = [row.state for row in self.rows.values()]
        return Counts({state: states.count(state) for state in UnitState}, states.count(UnitState.READY))

    def take_away(self, key: str, state: UnitState) -> None:
        """End a unit's lease, if it has one, over its holder's head."""
        row = self.rows[key]
        if not row.state.is_final:
            self._end(row, state, "taken away")

    async def _takes(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        if self._clock() < self.away_until:
            raise StoreError("the store is away")

    def _held(self, tokens: Sequence[str]) -> list[_Row]:
        now = self._clock()
        return [row for row in self.rows.values() if row.token in tokens and row.expires_at > now]

    def _end(self, row: _Row, state: UnitState, ending: str) -> None:
        if row.token is not None:
            assert row.token not in self.endings, "a lease ends once"
            self.endings[row.token] = ending
        row.state, row.token = state, None


class _Stream(io.BytesIO):
    def __init__(self, unit: VirtualUnit) -> None:
        super().__init__()
        self.unit = unit


class _File:
    def __init__(self, unit: VirtualUnit) -> None:
        self.stream = _Stream(unit)
        self.size = 0

    def sha256(self) -> str:
        return "0" * 64

    def close(self) -> None:
        self.stream.close()


class WatchedBudget(DecodeBudget):
    """Notes in which order shares are granted, each by the number of its request."""

    def __init__(self, limit: float, on_change: Callable[[float], None] = lambda _: None) -> None:
        super().__init__(limit, on_change)
        self.requests = 0
        self.granted: list[int] = []

    def ask(self, seconds: float, on_grant: Callable[[], None] = lambda: None) -> Hold:
        number = self.requests
        self.requests += 1

        def granted() -> None:
            self.granted.append(number)
            on_grant()

        return super().ask(seconds, granted)

    @property
    def line(self) -> int:
        """How many wait."""
        return len(self._line)


class WatchedKeeper(LeaseKeeper):
    """Tells the store's double which leases this process knows to be gone."""

    def lose(self, held: HeldLease) -> None:
        self._store.known_lost.add(held.token)  # type: ignore[attr-defined]
        super().lose(held)


@dataclass
class World:
    """A worker with everything around it simulated, over units that are given.

    `spans` are what the worker told; `alive` is the audio that is decoded in memory, whoever still has it.
    """

    units: Sequence[VirtualUnit]
    admission_s: float = 0.05
    call_s: float = 0.002
    prepare: bool = True
    lease_seconds: float = 120.0
    settings: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.clock = Clock()
        named = {f"u{n}": unit for n, unit in enumerate(self.units)}
        self._by_key = named
        self.store = VirtualStore(
            [Unit(key, f"virtual:{key}", clip=unit.clip) for key, unit in named.items()],
            self.clock,
            self.admission_s,
            self.call_s,
        )
        self.spans: list[Span] = []
        self.files: list[_File] = []
        self.groups: list[list[str]] = []
        self.decode_began_s: dict[str, float] = {}
        self.alive_s = 0.0

    def run(self, *disturbances: tuple[float, Callable[[World], None]]) -> Ending | None:
        """Run the worker to its end, disturbed at given times; None where its task was cancelled."""
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
        with self._simulated():
            return run_virtually(self._run(disturbances))

    async def _run(self, disturbances: Sequence[tuple[float, Callable[[World], None]]]) -> Ending | None:
        self.worker = Worker(
            store=self.store,  # type: ignore[arg-type]
            source=self,
            results=self,  # type: ignore[arg-type]
            process=self._process,
            gpu=VirtualGpu(self.clock),  # type: ignore[arg-type]
            settings=WorkerSettings.model_validate(self.settings),
            audio=AudioSettings(),
            lease_seconds=self.lease_seconds,
            prepare_whole_flight=self.prepare,
            burst=True,
            on_span=self._on_span,
        )
        loop = asyncio.get_running_loop()
        for at_s, disturb in disturbances:
            loop.call_at(at_s, disturb, self)
        self.task = asyncio.create_task(self.worker.run())
        async with asyncio.timeout(FOREVER):
            await asyncio.wait([self.task])
        self.ended_s = self.clock()
        await asyncio.sleep(FOREVER)  # whatever an IO thread still had to finish
        return None if self.task.cancelled() else self.task.result()

    # --- the boundary: audio, models and results ---

    def open(self, uri: str, max_bytes: int) -> _File:
        unit = self._by_key[uri.removeprefix("virtual:")]
        self.clock.spend(unit.fetch_s)
        if unit.fate == "missing":
            raise UnitRejected(Reason.AUDIO_MISSING, "it is not there")
        if unit.fate == "unavailable":
            raise UnitFailed(Reason.AUDIO_UNAVAILABLE, "it cannot be had")
        self.files.append(_File(unit))
        return self.files[-1]

    def write(self, token: str, document: bytes) -> str:
        self.clock.spend(self._by_key[json.loads(document)["key"]].publish_s)
        return token

    def _decode(self, stream: _Stream, uri: str, *, clip: Clip | None, max_seconds: float) -> Decoded:
        unit = stream.unit
        self.decode_began_s[uri.removeprefix("virtual:")] = self.clock()
        self.clock.spend(unit.decode_s)
        seconds = unit.seconds
        if clip is not None:
            seconds = min(seconds, clip.end_s if clip.end_s is not None else seconds) - clip.start_s
        if seconds > max_seconds:
            raise UnitRejected(Reason.AUDIO_TOO_LONG, "too long")
        if unit.fate == "broken":
            raise UnitRejected(Reason.AUDIO_UNDECODABLE, "broken")
        samples = np.broadcast_to(np.float32(0.0), (max(1, int(seconds * SAMPLE_RATE)),))
        self._lives(len(samples) / SAMPLE_RATE)
        weakref.finalize(samples, self._lives, -len(samples) / SAMPLE_RATE).atexit = False
        self._check_memory()
        return Decoded(samples, "virtual", "none", SAMPLE_RATE, 1, False)

    def _process(self, group: Sequence[PreparedUnit]) -> list[Transcript | UnitError]:
        self._check_memory()
        self.groups.append([one.unit.key for one in group])
        units = [self._by_key[one.unit.key] for one in group]
        self.clock.spend(sum(unit.gpu_s for unit in units))
        if any(unit.fate == "breaks_its_group" for unit in units):
            raise RuntimeError("this group breaks the model")
        if any(unit.fate == "quarantines" for unit in units):
            raise QuarantineError("decoding_mode", "the decoder is not as it was asked to be")
        return [
            UnitFailed(Reason.SPEECH_FAILED, "no luck")
            if unit.fate == "speech_failed"
            else Transcript(ResultClass.NO_SPEECH)
            for unit in units
        ]

    # --- what is watched ---

    def _lives(self, seconds: float) -> None:
        self.alive_s += seconds

    def _check_memory(self) -> None:
        held_s = self.worker.budget.in_use + self.worker.section_budget.in_use
        assert self.alive_s <= held_s + 1e-6, "audio is decoded that no budget knows of"

    def _on_span(self, span: Span) -> None:
        self._check_memory()
        self.spans.append(span)

    def of(self, phase: Phase) -> list[Span]:
        """The spans of one phase, in the order told."""
        return [span for span in self.spans if span.phase is phase]

    def seconds(self, phase: Phase) -> float:
        """How long a phase lasted, all lanes together."""
        return sum(span.ended_s - span.began_s for span in self.of(phase))

    def states(self) -> set[UnitState]:
        """What the units came to."""
        return {row.state for row in self.store.rows.values()}

    @contextlib.contextmanager
    def _simulated(self) -> Iterator[None]:
        worker = "volery.worker"
        times = [f"{worker}.{module}.perf_counter" for module in ("flight", "section", "worker", "preparation")]
        times += [f"{worker}.{module}.monotonic" for module in ("leases", "admission", "worker")]
        with contextlib.ExitStack() as stack:
            for name in times:
                stack.enter_context(mock.patch(name, self.clock))
            stack.enter_context(mock.patch(f"{worker}.worker.IoThreads", partial(VirtualIo, self.clock)))
            stack.enter_context(mock.patch(f"{worker}.worker.DecodeBudget", WatchedBudget))
            stack.enter_context(mock.patch(f"{worker}.worker.LeaseKeeper", WatchedKeeper))
            stack.enter_context(mock.patch(f"{worker}.preparation.decode", self._decode))
            stack.enter_context(mock.patch(f"{worker}.preparation.probe_seconds", lambda stream, _: stream.unit.claims))
            yield
