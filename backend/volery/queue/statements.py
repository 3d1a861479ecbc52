"""Every SQL statement of the job store, by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Double,
    Integer,
    Text,
    and_,
    bindparam,
    case,
    cast,
    column,
    exists,
    func,
    insert,
    literal,
    literal_column,
    null,
    select,
    update,
)

from volery.queue.dialects import elements, fresh_token, is_among, now
from volery.queue.tables import grants, units
from volery.units import Reason, UnitState

MOST_SUSPECT = 2
_LONGEST_SHIFT = 30  # 2**30 retries' worth of doubling is beyond any wait and within 32 bits


# Spelt out in the SQL: an index over part of a table is not used for a bound parameter.
_READY = units.c.state == literal_column("'ready'")
_LEASED = units.c.state == literal_column("'leased'")
_AVAILABLE = and_(_READY, units.c.available_at <= now())
_UNEXPIRED = and_(_LEASED, units.c.expires_at > now())
_LAPSED = and_(_LEASED, units.c.expires_at <= now())
_UNFINISHED = [state.value for state in UnitState if not state.is_final]
QUEUE_ORDER = (units.c.priority.desc(), units.c.rank, units.c.id)

_KEYS = bindparam("keys", expanding=True, type_=Text)
_STATES = bindparam("states", expanding=True, type_=Text)
_IDS = bindparam("ids", expanding=True, type_=BigInteger)

# The leases that a statement is about: a JSON array of objects, so that any number of them is one parameter.
_LEASES = elements(bindparam("leases", type_=Text)).table_valued(column("value", JSON), name="given")


def _said_of_lease(name: str) -> Any:
    """A string that the parameter `leases` holds for each lease."""
    return _LEASES.c.value.op("->>")(literal_column(f"'{name}'")).label(name)


_TOKENS = select(_said_of_lease("token"))
# Holders' rows are looked up by their tokens. These conditions are put in other words than the
# indexes over part of a table: PostgreSQL would read the whole of one, dead entries and all,
# wherever its statistics have not caught up.
_IS_LEASED = units.c.state.concat("") == UnitState.LEASED.value
_HAS_NOT_ENDED = grants.c.ended_as.is_(None)
_HOLDS = and_(is_among(units.c.token, _TOKENS.scalar_subquery()), _IS_LEASED, units.c.expires_at > now())

_CLEAN_RECORD: dict[str, Any] = {
    "state": UnitState.READY.value,
    "available_at": now(),
    "attempts": 0,
    "suspicion": 0,
    "quarantines": 0,
    "token": null(),
    "worker": null(),
    "expires_at": null(),
    "alone": False,
    "reason": null(),
    "error": null(),
    "result_class": null(),
    "artifact": null(),
    "duration_s": null(),
    "finished_at": null(),
}
"""What a unit starts with, whether it is new, replaced or requeued."""


def _in_turn(condition: Any, *, skip_locked: bool = False) -> Any:
    """Units under a condition, locked in order of their ids: two statements never wait for each other."""
    locked = select(units.c.id).where(condition).order_by(units.c.id).with_for_update(skip_locked=skip_locked)
    return is_among(units.c.id, select(locked.cte("locked").c.id).scalar_subquery())


def _charged(reason: Any, error: Any) -> dict[str, Any]:
    """One attempt more: back off, or be dead. Parameters: max_attempts, retry_base, retry_max."""
    attempts = units.c.attempts + 1
    exhausted = attempts >= bindparam("max_attempts", type_=Integer)
    doublings = case((units.c.attempts < _LONGEST_SHIFT, units.c.attempts), else_=_LONGEST_SHIFT)
    delay = bindparam("retry_base", type_=Double) * literal(1).bitwise_lshift(doublings)
    longest = bindparam("retry_max", type_=Double)
    return {
        "attempts": attempts,
        "state": case((exhausted, UnitState.DEAD.value), else_=UnitState.READY.value),
        "available_at": now() + case((delay < longest, delay), else_=longest),
        "finished_at": case((exhausted, now()), else_=null()),
        "reason": reason,
        "error": error,
    }


# Submission

KNOWN_UNITS = select(units.c.id, units.c.key, units.c.audio_uri, units.c.clip_start_s, units.c.clip_end_s).where(
    units.c.key.in_(_KEYS)
)

LAST_RANKS = select(
    select(func.max(units.c.rank))
    .where(_READY, units.c.owner == bindparam("owner"), units.c.priority == bindparam("priority"))
    .scalar_subquery()
    .label("owner"),
    select(func.max(grants.c.rank)).where(grants.c.priority == bindparam("priority")).scalar_subquery().label("queue"),
)
"""The owner's last waiting unit, and the queue's virtual time: the highest rank ever granted."""

ADD_UNIT = insert(units).values(submitted_at=now(), **_CLEAN_RECORD)
REPLACE_UNIT = update(units).where(units.c.id == bindparam("unit_id")).values(submitted_at=now(), **_CLEAN_RECORD)

# Leasing

GRANT_NAMES = ("token", "worker", "granted_at", "alone", "priority", "rank")
"""What the record of a grant takes over from its unit."""

_OF_LEASES = (
    *(units.c.id, units.c.key, units.c.owner, units.c.priority, units.c.rank, units.c.audio_uri),
    *(units.c.clip_start_s, units.c.clip_end_s, units.c.num_speakers, units.c.language, units.c.stream),
    *(units.c.place, units.c.privacy_generation, units.c.attempts),
    *(units.c.token, units.c.worker, units.c.expires_at, units.c.alone),
)


def _pull() -> Any:
    """Grant a flight. Parameters: process, limit, suspects (the limit for first-degree suspects), lease_seconds.

    The parts that choose are CTEs: PostgreSQL may run a plain subquery with LIMIT more than once.
    """
    head = (
        select(units.c.suspicion)
        .where(_AVAILABLE)
        .order_by(*QUEUE_ORDER)
        .limit(1)
        .with_for_update(skip_locked=True)
        .cte("head")
    )
    suspicion = select(head.c.suspicion).scalar_subquery()
    held = and_(_UNEXPIRED, units.c.worker == bindparam("process", type_=Text))
    size = case(
        (exists().where(held, units.c.alone), 0),
        (and_(suspicion == MOST_SUSPECT, exists().where(held)), 0),
        (suspicion == MOST_SUSPECT, 1),
        (suspicion > 0, bindparam("suspects", type_=Integer)),
        else_=bindparam("limit", type_=Integer),
    )
    chosen = (
        select(units.c.id)
        .where(_AVAILABLE, units.c.suspicion == suspicion)
        .order_by(*QUEUE_ORDER)
        .limit(size)
        .with_for_update(skip_locked=True)
        .cte("chosen")
    )
    return (
        update(units)
        .where(is_among(units.c.id, select(chosen.c.id).scalar_subquery()))
        .values(
            state=UnitState.LEASED.value,
            token=fresh_token(),
            worker=bindparam("process", type_=Text),
            expires_at=now() + bindparam("lease_seconds", type_=Double),
            alone=units.c.suspicion == MOST_SUSPECT,
        )
        .returning(*_OF_LEASES, now().label("granted_at"))
    )


def _pull_and_record(pull: Any) -> Any:
    """Grant a flight and record its grants, for a database that changes two tables in one statement."""
    granted = pull.cte("granted")
    row = {"unit_id": granted.c.id, **{name: granted.c[name] for name in GRANT_NAMES}}
    recorded = insert(grants).from_select(list(row), select(*row.values())).cte("recorded")
    return select(granted).add_cte(recorded)


def _end_grants(tokens: Any) -> Any:
    return (
        update(grants)
        .where(is_among(grants.c.token, tokens.scalar_subquery()), _HAS_NOT_ENDED)
        .values(ended_at=now(), ended_as=bindparam("ending", type_=Text))
    )


PULL = _pull()
RECORD_GRANT = insert(grants)
PULL_AND_RECORD = _pull_and_record(PULL)
END_GRANTS = _end_grants(_TOKENS)
END_GRANTS_OF_UNITS = (
    update(grants)
    .where(grants.c.unit_id.in_(_IDS), grants.c.ended_at.is_(None))
    .values(ended_at=now(), ended_as=bindparam("ending", type_=Text))
)


def _by_holder(**values: Any) -> Any:
    """A statement of lease holders: it changes the units whose leases hold, and names those leases."""
    return update(units).where(_in_turn(_HOLDS), _HOLDS).values(**values).returning(units.c.token)


@dataclass(frozen=True)
class Ending:
    """How leases end: `units` names those that held, whose grants are to be ended beside it.

    `at_once` does both, for a database that changes two tables in one statement. Parameter of
    it: ending.
    """

    units: Any
    at_once: Any


def _ending(of_units: Any) -> Ending:
    ended = of_units.cte("ended")
    recorded = _end_grants(select(ended.c.token)).cte("recorded")
    return Ending(of_units, select(ended).add_cte(recorded))


LOCK_HELD = select(units.c.token).where(_HOLDS).order_by(units.c.id).with_for_update()
RENEW = _by_holder(expires_at=now() + bindparam("lease_seconds", type_=Double))


def _complete() -> Ending:
    """Commit results. The parameter `leases` holds token, artifact, result_class and duration_s of each."""
    names = ("token", "artifact", "result_class", "duration_s")
    results = select(*(_said_of_lease(name) for name in names)).cte("results")
    return _ending(
        _by_holder(
            state=UnitState.DONE.value,
            finished_at=now(),
            reason=null(),
            error=null(),
            artifact=results.c.artifact,
            result_class=results.c.result_class,
            duration_s=cast(results.c.duration_s, Double),
        ).where(units.c.token == results.c.token)
    )


COMPLETE = _complete()
REJECT = _ending(
    _by_holder(
        state=UnitState.REJECTED.value,
        finished_at=now(),
        reason=bindparam("why", type_=Text),
        error=bindparam("message", type_=Text),
    )
)
FAIL = _ending(
    _by_holder(**_charged(bindparam("why", type_=Text), bindparam("message", type_=Text))).returning(units.c.state)
)
REFUND = _ending(_by_holder(state=UnitState.READY.value))
_NEVER_QUARANTINED = units.c.quarantines == 0
REFUND_FIRST_QUARANTINE = _by_holder(state=UnitState.READY.value, quarantines=1).where(_NEVER_QUARANTINED)
REFUND_LATER_QUARANTINE = _by_holder(
    **_charged(
        Reason.QUARANTINED_TWICE.value,
        "its process was quarantined while it held this unit, and not for the first time",
    ),
    quarantines=units.c.quarantines + 1,
).where(~_NEVER_QUARANTINED)

REAP_ALONE = (
    update(units)
    .where(_in_turn(and_(_LAPSED, units.c.alone), skip_locked=True))
    .values(
        **_charged(
            Reason.LEASE_EXPIRED.value,
            literal("the lease expired while the unit was leased alone: it killed or stalled worker ") + units.c.worker,
        )
    )
    .returning(units.c.token)
)
REAP_SHARED = (
    update(units)
    .where(_in_turn(and_(_LAPSED, ~units.c.alone), skip_locked=True))
    .values(
        state=UnitState.READY.value,
        suspicion=case((units.c.suspicion < MOST_SUSPECT, units.c.suspicion + 1), else_=MOST_SUSPECT),
    )
    .returning(units.c.token)
)

# The operator's statements

_CANCELLED = {"state": UnitState.CANCELLED.value, "finished_at": now()}
_IS_UNFINISHED = units.c.state.in_(_UNFINISHED)
CANCEL_ALL = update(units).where(_in_turn(_IS_UNFINISHED)).values(**_CANCELLED).returning(units.c.id)
CANCEL_NUMBERED = (
    update(units).where(_in_turn(and_(_IS_UNFINISHED, units.c.id.in_(_IDS)))).values(**_CANCELLED).returning(units.c.id)
)
FINISHED = (
    select(units.c.id, units.c.owner, units.c.priority)
    .where(units.c.state.in_(_STATES))
    .order_by(units.c.id)
    .with_for_update()
)
FINISHED_NUMBERED = FINISHED.where(units.c.id.in_(_IDS))
REQUEUE_UNIT = update(units).where(units.c.id == bindparam("unit_id")).values(**_CLEAN_RECORD)

# Reading

COUNT_BY_STATE = select(units.c.state, func.count().label("units")).group_by(units.c.state)
COUNT_AVAILABLE = select(func.count().label("units"), (now() - func.min(units.c.available_at)).label("oldest_s")).where(
    _AVAILABLE
)

_PAGE = 500
_RECORDS = select(units).order_by(units.c.id)
RECORD = select(units).where(units.c.key == bindparam("key", type_=Text))
RECORDS_AFTER = _RECORDS.where(units.c.id > bindparam("after", type_=BigInteger)).limit(_PAGE)
RECORDS_NUMBERED = _RECORDS.where(units.c.id.in_(_IDS))
CHOSEN = select(units.c.id).where(units.c.state.in_(_STATES))
CHOSEN_NUMBERED = CHOSEN.where(units.c.id.in_(_IDS))
NUMBERS = select(units.c.id).where(units.c.key.in_(_KEYS))
RECORDS_LATEST = (
    select(units)
    .where(units.c.state.in_(_STATES))
    .order_by(units.c.finished_at.desc(), units.c.id.desc())
    .limit(bindparam("limit", type_=Integer))
)

GRANTS = select(grants, units.c.key).join(units).order_by(grants.c.id)
GRANTS_OF_UNIT = GRANTS.where(units.c.key == bindparam("key", type_=Text))
