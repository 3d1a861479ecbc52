"""What a job store does. The one implementation is in `sql.py`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from volery.units import Lease, Reason, RefundReason, ResultClass, Unit, UnitState

if TYPE_CHECKING:
    from volery.queue.pruning import Pruning


@dataclass(frozen=True, slots=True)
class Submitted:
    """How many of a batch of units were new, replaced, or already there with the same audio."""

    new: int = 0
    replaced: int = 0
    unchanged: int = 0


@dataclass(frozen=True, slots=True)
class Publication:
    """A written result, ready to be committed under its lease token."""

    token: str
    artifact: str
    result_class: ResultClass
    duration_s: float

    def as_dict(self) -> dict[str, Any]:
        """Its fields by name, each as JSON has it."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class UnitRecord:
    """A unit as the store knows it. `artifact` names the committed result, where there is one."""

    unit: Unit
    state: UnitState
    attempts: int
    reason: str | None
    error: str | None
    result_class: ResultClass | None
    artifact: str | None
    duration_s: float | None
    submitted_at: float
    available_at: float
    finished_at: float | None


@dataclass(frozen=True, slots=True)
class Grant:
    """One lease from its grant to its end; `ended_as` is null while it runs."""

    token: str
    key: str
    worker: str
    granted_at: float
    ended_at: float | None
    ended_as: str | None
    alone: bool


@dataclass(frozen=True, slots=True)
class Counts:
    """Units by state, and what of the ready ones could be leased at this moment."""

    by_state: dict[UnitState, int] = field(default_factory=dict)
    available: int = 0
    backing_off: int = 0
    oldest_available_s: float | None = None

    @property
    def unfinished(self) -> int:
        """Units that are ready, backing off or leased by anyone."""
        return self.by_state.get(UnitState.READY, 0) + self.by_state.get(UnitState.LEASED, 0)


class JobStore(Protocol):
    """Units, their leases and their ends.

    Every statement of a lease holder names its token and holds only while that lease has not
    expired by the store's clock; one that no longer holds changes nothing and says so.
    Errors: `StoreError` where the store cannot be reached or used.
    """

    async def submit(self, units: Sequence[Unit], *, replace: bool = False) -> Submitted:
        """Add units, all or none.

        The same key with the same audio (URI and clip) again changes nothing. With other audio:
        `KeyConflictError`, or with `replace` the unit starts anew (a running lease loses its hold).
        """
        ...

    async def wait_for_work(self, seconds: float) -> None:
        """Wait until something may have been submitted since the last wait, at most so long.

        A store that cannot tell waits the whole time. Where it loses its connection it does too.
        """
        ...

    async def pull(self, worker: str, limit: int, lease_seconds: float) -> list[Lease]:
        """Grant up to `limit` units to a process, in one statement, in the queue's order.

        The unit at the head decides the flight: suspects of the first degree are granted in a
        smaller flight, of the second degree alone and only to a process that holds no other
        lease; until then, and while a process holds a lease alone, nothing is granted to it.
        `worker` names the process, the same for all its lanes and for no other process; a process
        pulls through one store.
        """
        ...

    async def renew(self, tokens: Sequence[str], lease_seconds: float) -> frozenset[str]:
        """Extend leases; the tokens that still hold."""
        ...

    async def complete(self, publications: Sequence[Publication]) -> frozenset[str]:
        """Commit results; the tokens whose commit held."""
        ...

    async def reject(self, token: str, reason: Reason, error: str) -> bool:
        """End a unit whose audio can never work; False where the lease no longer held."""
        ...

    async def fail(self, token: str, reason: Reason, error: str) -> UnitState | None:
        """Charge one attempt: the unit backs off, or is dead; None where the lease no longer held."""
        ...

    async def refund(self, tokens: Sequence[str], reason: RefundReason) -> frozenset[str]:
        """Give leases back without charge; the tokens that still held.

        A unit at its second quarantine is charged for that one and every later one.
        """
        ...

    async def reap(self) -> int:
        """End every lapsed lease and return its unit to the queue; how many there were.

        Lapsed leases make suspects of their units; only one granted alone charges an attempt.
        """
        ...

    async def requeue(self, keys: Sequence[str] = (), *, states: Sequence[UnitState] = ()) -> int:
        """Make finished units ready again with a clean record: those named, or all in `states`."""
        ...

    async def cancel(self, keys: Sequence[str] = (), *, all_unfinished: bool = False) -> int:
        """Cancel unfinished units; a running lease loses its hold. How many were cancelled."""
        ...

    async def counts(self) -> Counts:
        """Units by state and the age of the oldest available one."""
        ...

    async def get(self, key: str) -> UnitRecord | None:
        """One unit."""
        ...

    async def latest(self, states: Sequence[UnitState], limit: int) -> list[UnitRecord]:
        """The units that came to one of these ends last, at most `limit`, the latest first."""
        ...

    def records(self, *, states: Sequence[UnitState] = (), keys: Sequence[str] = ()) -> AsyncIterator[UnitRecord]:
        """Units in order of submission, all or those in `states` or named by `keys`, streamed."""
        ...

    async def grants(self, key: str | None = None) -> list[Grant]:
        """Grants in order, of one unit or of all."""
        ...

    def pruning(self) -> Pruning:
        """What may go, and how to let it go."""
        ...

    async def check(self) -> None:
        """Raise `StoreError` unless the store is reachable and its schema is one this code runs on."""
        ...

    async def close(self) -> None:
        """Release connections."""
        ...
