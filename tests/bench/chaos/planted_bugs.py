"""Worker processes of the fault harness with a bug in one statement of the store: the harness must notice."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Sequence

from sqlalchemy import and_, select, update

from volery.bench.chaos import worker
from volery.bench.chaos.plan import LEASE_SECONDS, WorkerOrder
from volery.queue import Publication, statements
from volery.queue.dialects import now
from volery.queue.sql import SqlJobStore
from volery.queue.tables import grants, units
from volery.units import PreparedUnit, Transcript, UnitError, UnitState
from volery.worker.leases import HeldLease


def complete_without_token(order: WorkerOrder) -> None:
    """A result is committed whoever holds the unit's lease now, by a worker that does not look at its own clock.

    A worker that does look hardly ever asks so late: the token is the second of two locks on one door.
    """
    names = ("token", "artifact", "result_class", "duration_s")
    results = select(*(statements._said_of_lease(name) for name in names)).cte("results")
    its_unit = select(grants.c.unit_id).where(grants.c.token == results.c.token).scalar_subquery()
    committed = (
        update(units)
        .where(units.c.id == its_unit, statements._UNEXPIRED)
        .values(state=UnitState.DONE.value, finished_at=now(), artifact=results.c.artifact)
        .returning(units.c.token)
    )
    statements.COMPLETE = statements._ending(committed)
    HeldLease.holds = True  # type: ignore[method-assign, assignment]
    _be_slow_with_suspects()
    _stall_before_commits(order.seed, 1.3, 2.0)
    worker.work(order)


def complete_without_expiry(order: WorkerOrder) -> None:
    """A result is committed although the lease has lapsed, as long as nobody has noticed it."""
    statements._HOLDS = and_(units.c.token.in_(statements._TOKENS), statements._IS_LEASED)
    statements.COMPLETE = statements._complete()
    _stall_before_commits(order.seed, 1.05, 1.3)
    _reap_seldom()
    worker.work(order)


def refund_that_charges(order: WorkerOrder) -> None:
    """A refund costs an attempt, by a worker that gives back a whole flight sooner or later."""
    charged = statements._by_holder(state=UnitState.READY.value, attempts=units.c.attempts + 1)
    statements.REFUND = statements._ending(charged)
    _give_a_flight_back(order.seed)
    worker.work(order)


def _give_a_flight_back(seed: int) -> None:
    """Half of the processes are told twice to drain while their models have units."""
    process, hurried = worker.process, random.Random(seed).random() < 0.5

    def told(pace_s: float, group: Sequence[PreparedUnit]) -> list[Transcript | UnitError]:
        for _ in range(2 * hurried):
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.1)
        return process(pace_s, group)

    worker.process = told


def _reap_seldom() -> None:
    """No promise says how soon a lapsed lease is noticed; late, a bug has more time to show."""
    reap = SqlJobStore.reap
    calls = 0

    async def seldom(self: SqlJobStore) -> int:
        nonlocal calls
        calls += 1
        return await reap(self) if calls % 4 == 0 else 0

    SqlJobStore.reap = seldom  # type: ignore[method-assign]


def _stall_before_commits(seed: int, shortest: float, longest: float) -> None:
    """At first, the whole event loop now and then stands still for so many leases before results are committed.

    Not for ever: a run ends once every unit has.
    """
    complete, chance = SqlJobStore.complete, random.Random(seed)
    left = 3

    async def stalled(self: SqlJobStore, publications: Sequence[Publication]) -> frozenset[str]:
        nonlocal left
        if left and chance.random() < 0.75:
            left -= 1
            time.sleep(LEASE_SECONDS * chance.uniform(shortest, longest))  # noqa: ASYNC251  # renewals are to stand still too
        return await complete(self, publications)

    SqlJobStore.complete = stalled  # type: ignore[method-assign]


def _be_slow_with_suspects() -> None:
    """The longer the next one has a unit, the more often the first one comes back in that time."""
    process = worker.process

    def slow(pace_s: float, group: Sequence[PreparedUnit]) -> list[Transcript | UnitError]:
        if len(group) <= 2:
            time.sleep(LEASE_SECONDS / 2)
        return process(pace_s, group)

    worker.process = slow
