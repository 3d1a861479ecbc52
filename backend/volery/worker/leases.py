"""The leases that this process holds: renewed from pull to commit, and noticed when lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from time import monotonic

import structlog

from volery import metrics
from volery.queue.store import JobStore
from volery.units import Lease, RefundReason, StoreError, Unit

log = structlog.get_logger(__name__)

_RENEWALS_A_LEASE = 3
_TRIES_A_LEASE = 24
"""How often a renewal that failed is tried again: a store that is away for most of a lease takes none."""


@dataclass(eq=False)
class HeldLease:
    """A lease in this process's hands.

    `valid_until` is on this machine's monotonic clock and counted from before the request was
    sent, so it never outlives the lease itself, however slow the answer or stalled the loop.
    """

    lease: Lease
    valid_until: float
    lost: asyncio.Event = field(default_factory=asyncio.Event)
    on_lost: Callable[[], None] = lambda: None
    settling: bool = False

    @property
    def token(self) -> str:
        """The lease's token."""
        return self.lease.token

    @property
    def unit(self) -> Unit:
        """The leased unit."""
        return self.lease.unit

    @property
    def holds(self) -> bool:
        """Whether the lease may still be relied upon."""
        return not self.lost.is_set() and monotonic() < self.valid_until


class LeaseKeeper:
    """Renews every held lease and marks those that are gone."""

    def __init__(self, store: JobStore, lease_seconds: float) -> None:
        self._store = store
        self._lease_seconds = lease_seconds
        self._held: dict[str, HeldLease] = {}

    def __len__(self) -> int:
        return len(self._held)

    @property
    def tokens(self) -> tuple[str, ...]:
        """Tokens of all held leases."""
        return tuple(self._held)

    def hold(self, leases: Sequence[Lease], asked_at: float) -> list[HeldLease]:
        """Take charge of fresh leases, asked for at `asked_at` (monotonic)."""
        held = [HeldLease(lease, asked_at + self._lease_seconds) for lease in leases]
        self._held.update((one.token, one) for one in held)
        return held

    def let_go(self, tokens: Iterable[str]) -> None:
        """Stop renewing leases that have ended."""
        for token in tokens:
            self._held.pop(token, None)

    async def refund(self, tokens: Sequence[str], reason: RefundReason) -> None:
        """Give leases back. Where the store cannot be reached they lapse by themselves.

        They count as held until the store has answered, so that the worker's end makes up for a
        refund that was cancelled.
        """
        if not tokens:
            return
        for held in (self._held[token] for token in tokens if token in self._held):
            held.settling = True
        try:
            refunded = await self._store.refund(tokens, reason)
        except StoreError as error:
            log.warning("refund failed; the leases will lapse", leases=len(tokens), error=str(error))
        else:
            metrics.REFUNDS.labels(reason).inc(len(refunded))
            log.info("leases refunded", leases=len(refunded), reason=reason)
        self.let_go(tokens)

    async def run(self) -> None:
        """Renew for ever."""
        answered = True
        while True:
            await asyncio.sleep(self._lease_seconds / (_RENEWALS_A_LEASE if answered else _TRIES_A_LEASE))
            answered = await self.renew()

    async def renew(self) -> bool:
        """Renew every held lease once; False where the store could not be asked."""
        tokens, asked_at = self.tokens, monotonic()
        if not tokens:
            return True
        try:
            renewed = await self._store.renew(tokens, self._lease_seconds)
        except StoreError as error:
            log.warning("renewal failed", leases=len(tokens), error=str(error))
            self._lose(token for token in tokens if not self._still_holds(token))
            return False
        for token in renewed:
            if token in self._held:
                self._held[token].valid_until = asked_at + self._lease_seconds
        self._lose(token for token in tokens if token not in renewed)
        return True

    def _still_holds(self, token: str) -> bool:
        held = self._held.get(token)
        return held is not None and held.holds

    def _lose(self, tokens: Iterable[str]) -> None:
        for token in list(tokens):
            held = self._held.get(token)
            if held is not None and not held.settling:
                self.lose(held)

    def check(self, held: HeldLease) -> bool:
        """Whether a lease may still be relied upon; one that has lapsed is lost from now on."""
        if not held.holds:
            self.lose(held)
            return False
        return True

    def lose(self, held: HeldLease) -> None:
        """Mark one lease as gone."""
        if self._held.pop(held.token, None) is not None:
            held.lost.set()
            held.on_lost()
            metrics.LEASES_LOST.inc()
            log.warning("lease lost", key=held.unit.key)
