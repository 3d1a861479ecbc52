"""The referee's one process: everything that is heavy happens in it, and nothing of that in its parent's.

It is started by `spawn` for the first case, loads its models once, and judges one case after the other.
One that crashes, hangs or takes too long is ended; the next case gets a fresh one. It ends with its parent.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import Connection
from time import monotonic
from types import TracebackType
from typing import Protocol

import structlog

from volery import metrics
from volery.logs import configure_logging
from volery.referee.cases import Case, Judgement, RefereeError, RefereeReason
from volery.referee.devices import Choice, Why
from volery.settings import LogSettings
from volery.units import ConfigurationError

LOAD_SECONDS = 1800.0
"""How long the process may take to fetch and load its models."""

START_AGAIN_SECONDS = 60.0
"""How long after a failed start the next one is tried: each costs as much as importing torch does."""

_NICENESS = 19
_PR_SET_PDEATHSIG = 1

log = structlog.get_logger(__name__)


class Work(Protocol):
    """What the process does; made in it, once, with its models loaded."""

    @property
    def choice(self) -> Choice:
        """The device that the models are on."""
        ...

    def judge(self, case: Case) -> Judgement:
        """Judge one case.

        Raises:
            RefereeError: it cannot be judged.
        """
        ...


Start = Callable[[], Work]
"""Makes the work in the process, so it must be something that pickle can name."""


@dataclass(frozen=True, slots=True)
class _Refusal:
    """An error on its way to the parent, which may lack what an exception is made of."""

    reason: RefereeReason
    message: str


class RefereeProcess:
    """Judges cases of any thread one at a time, first come first served, in a process of its own.

    The process begins with the first case. Close it: one that hangs would keep the parent from ending.
    """

    def __init__(self, start: Start, *, cpu_threads: int = 1, logging: LogSettings | None = None) -> None:
        self._start = start
        self._cpu_threads = cpu_threads
        self._logging = logging or LogSettings()
        self._child: _Child | None = None
        self._not_started: tuple[float, RefereeError] | None = None
        self._closed = False
        self._changing = threading.Lock()
        self._turns = ThreadPoolExecutor(1, thread_name_prefix="referee")

    def __enter__(self) -> RefereeProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def judge(self, case: Case, deadline_s: float) -> Judgement:
        """Judge a case once those before it are; see `ask`.

        Raises:
            RefereeError: it cannot be judged; the reason says why.
        """
        try:
            return self.ask(case, deadline_s).result()
        except CancelledError:
            raise _closed(case) from None

    def ask(self, case: Case, deadline_s: float) -> Future[Judgement]:
        """Queue a case behind those that were asked for before; its future is cancelled by `close`.

        The deadline is what the process may take for this case alone, in seconds: waiting for others
        and loading the models do not count.

        Raises:
            RefereeError: this is closed.
        """
        try:
            return self._turns.submit(self._turn, case, deadline_s)
        except RuntimeError:
            raise _closed(case) from None

    def close(self) -> None:
        """End the process at once, whatever it is doing; what waits is not judged any more."""
        self._turns.shutdown(wait=False, cancel_futures=True)
        with self._changing:
            self._closed = True
        self._end_child()

    def _turn(self, case: Case, deadline_s: float) -> Judgement:
        try:
            return self._living_child(case).judge(case, deadline_s)
        except RefereeError as error:
            if self._closed:
                raise _closed(case) from error
            if error.reason in _ENDS_THE_PROCESS:
                self._end_child()
                log.warning("the referee's process is ended", key=case.key, reason=error.reason)
            raise

    def _living_child(self, case: Case) -> _Child:
        """The process, its models loaded; a fresh one where there is none."""
        child = self._child
        if child is not None and child.alive:
            return child
        if self._not_started is not None and monotonic() < self._not_started[0]:
            raise self._not_started[1]
        self._end_child()
        with self._changing:
            if self._closed:
                raise _closed(case)
            child = self._child = _Child(self._start, self._cpu_threads, self._logging)
        try:
            _announce(child.choice())
        except RefereeError as error:
            self._not_started = monotonic() + START_AGAIN_SECONDS, error
            raise
        return child

    def _end_child(self) -> None:
        with self._changing:
            child, self._child = self._child, None
            if child is not None:
                child.end()


_ENDS_THE_PROCESS = frozenset(
    (RefereeReason.DEADLINE, RefereeReason.DIED, RefereeReason.NOT_STARTED, RefereeReason.UNEXPECTED)
)
"""After these the process is gone, hangs, or may be broken for every case, as after an error of the device's driver."""


def _closed(case: Case) -> RefereeError:
    return RefereeError(RefereeReason.CLOSED, f"the referee was closed before it judged {case.key}")


def _announce(choice: Choice) -> None:
    """Say where the models are: a referee that fell to the CPU takes about six times as long."""
    say = log.warning if choice.fell else log.info
    say("the referee's models are loaded", device=choice.device, why=choice.why, free_bytes=choice.free_bytes)
    for kind in ("cuda", "cpu"):
        for why in Why:
            metrics.REFEREE_DEVICE.labels(kind, why).set(float((kind, why) == (choice.kind, choice.why)))


class _Child:
    """One process as its parent sees it."""

    def __init__(self, start: Start, cpu_threads: int, logging: LogSettings) -> None:
        spawning = multiprocessing.get_context("spawn")
        self._connection, theirs = spawning.Pipe()
        self._process = spawning.Process(
            target=_serve, args=(theirs, start, cpu_threads, logging), name="volery-referee", daemon=True
        )
        self._process.start()
        theirs.close()  # or its end would not be noticed here

    @property
    def alive(self) -> bool:
        return self._process.is_alive()

    def choice(self) -> Choice:
        """Where its models are, once they are loaded.

        Raises:
            RefereeError: they cannot be.
        """
        try:
            answer = self._answer(LOAD_SECONDS)
        except RefereeError as error:
            raise RefereeError(
                RefereeReason.NOT_STARTED, f"the referee's process did not load its models: {error.message}"
            ) from error
        assert isinstance(answer, Choice)
        return answer

    def judge(self, case: Case, deadline_s: float) -> Judgement:
        """See `Work.judge`."""
        try:
            self._connection.send(case)
        except OSError as error:
            raise self._died() from error
        answer = self._answer(deadline_s)
        assert isinstance(answer, Judgement)
        return answer

    def _answer(self, within_s: float) -> object:
        try:
            if not self._connection.poll(within_s):
                raise RefereeError(RefereeReason.DEADLINE, f"no answer within {within_s:g} s")
            answer = self._connection.recv()
        except (EOFError, OSError) as error:
            raise self._died() from error
        if isinstance(answer, _Refusal):
            raise RefereeError(answer.reason, answer.message)
        return answer

    def _died(self) -> RefereeError:
        self._process.join(1.0)
        return RefereeError(RefereeReason.DIED, f"the referee's process ended with exit code {self._process.exitcode}")

    def end(self) -> None:
        """End it, even where it is stopped; its end is waited for.

        The connection is left to who reads from it, perhaps another thread: it sees the end there.
        """
        self._process.kill()
        self._process.join()


def _serve(connection: Connection, start: Start, cpu_threads: int, logging: LogSettings) -> None:
    """The process: make the work, then judge what comes until nobody is left to ask."""
    _settle(cpu_threads, logging)
    try:
        work = start()
    except Exception as error:  # models, their libraries and devices fail in many ways
        connection.send(_Refusal(RefereeReason.NOT_STARTED, _described(error)))
        return
    connection.send(work.choice)
    while (case := _next(connection)) is not None:
        answer = _judged(work, case)
        connection.send(answer)


def _settle(cpu_threads: int, logging: LogSettings) -> None:
    """Stand back behind the parent, and end with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    if sys.platform == "linux":
        # By the kernel, so that a process that hangs or is stopped goes too. What counts as the parent is the
        # thread that started this one, and that lives as long as its RefereeProcess.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    os.nice(_NICENESS)
    os.dup2(2, 1)  # standard output is the parent's: it may be printing JSON
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(cpu_threads)  # read when numpy and torch are imported, which is still to come
    configure_logging(logging)


def _next(connection: Connection) -> Case | None:
    try:
        case = connection.recv()
    except EOFError:
        return None
    assert isinstance(case, Case)
    return case


def _judged(work: Work, case: Case) -> Judgement | _Refusal:
    try:
        return work.judge(case)
    except RefereeError as error:
        return _Refusal(error.reason, error.message)
    except Exception as error:  # whatever it is, the parent must hear of it
        return _Refusal(RefereeReason.UNEXPECTED, _place_of(error))


def _described(error: Exception) -> str:
    return str(error) if isinstance(error, ConfigurationError) else f"{type(error).__name__}: {error}"


def _place_of(error: Exception) -> str:
    """What kind of error and where, without its own words: they may hold what was heard."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace is not None else "an unknown place"
    return f"{type(error).__name__} at {place}"
