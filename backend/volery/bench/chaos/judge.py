"""Whether the promises held: told from the database's units and grants and from the artifacts alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from volery.bench.chaos.plan import MAX_ATTEMPTS
from volery.bench.chaos.worker import KILLER
from volery.units import UnitState

Violations = Iterator[str]
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Evidence:
    """What a run left behind.

    `units` and `grants` are the rows of the tables, `expected` the digest of each unit's audio,
    `found` that in the result which its unit names: None where there is no such result. `cut_short`
    are the units whose results say that their audio broke off.
    """

    units: Sequence[Row]
    grants: Sequence[Row]
    expected: Mapping[str, str]
    found: Mapping[str, str | None]
    cut_short: frozenset[str]

    def grants_of(self) -> dict[int, list[Row]]:
        """Grants by unit, in the order they were made."""
        by_unit: dict[int, list[Row]] = defaultdict(list)
        for grant in self.grants:
            by_unit[grant["unit_id"]].append(grant)
        return by_unit


@dataclass(frozen=True)
class Finding:
    """One promise: how many units or grants were looked at, and what broke it."""

    promise: str
    looked_at: int
    violations: tuple[str, ...]


def judge(evidence: Evidence) -> list[Finding]:
    """Check every promise."""
    return [Finding(promise, looked_at(evidence), tuple(check(evidence))) for promise, looked_at, check in _PROMISES]


def _every_unit_ended(evidence: Evidence) -> Violations:
    seen = {unit["key"]: unit["state"] for unit in evidence.units}
    for key in evidence.expected:
        if key not in seen:
            yield f"{key} is lost"
        elif not UnitState(seen[key]).is_final:
            yield f"{key} is still {seen[key]}"


def _one_lease_a_result(evidence: Evidence) -> Violations:
    grants = evidence.grants_of()
    for unit in evidence.units:
        tokens = [grant["token"] for grant in grants[unit["id"]] if grant["ended_as"] == "done"]
        if unit["state"] != "done":
            if tokens or unit["artifact"]:
                yield f"{unit['key']} is {unit['state']} and has a result"
        elif tokens != [unit["token"]]:
            yield f"{unit['key']} was done by {len(tokens)} leases, the last of which is not the one that is recorded"
        elif unit["token"] not in (unit["artifact"] or ""):
            yield f"{unit['key']} names a result that another lease wrote"


def _results_are_of_their_audio(evidence: Evidence) -> Violations:
    for unit in evidence.units:
        if unit["state"] != "done":
            continue
        found = evidence.found.get(unit["key"])
        if found is None:
            yield f"{unit['key']} has no readable result"
        elif found != evidence.expected[unit["key"]] and unit["key"] not in evidence.cut_short:
            yield f"{unit['key']} has a result of other audio"


def _nothing_after_a_lapse(evidence: Evidence) -> Violations:
    for unit in evidence.units:
        if unit["state"] in ("done", "rejected") and unit["finished_at"] > unit["expires_at"]:
            late = unit["finished_at"] - unit["expires_at"]
            yield f"{unit['key']} was {unit['state']} {late:.3f} s after its lease had lapsed"


def _charged(grants: list[Row]) -> int:
    """The attempts that the grants of a unit are worth."""
    own = [grant for grant in grants if grant["ended_as"] == "failed" or _lapsed_alone(grant)]
    quarantines = [grant for grant in grants if grant["ended_as"] == "refund:quarantine"]
    return len(own) + max(0, len(quarantines) - 1)


def _lapsed_alone(grant: Row) -> bool:
    return bool(grant["ended_as"] == "expired" and grant["alone"])


def _attempts_are_fair(evidence: Evidence) -> Violations:
    grants = evidence.grants_of()
    for unit in evidence.units:
        charged = _charged(grants[unit["id"]])
        if unit["attempts"] != charged:
            yield f"{unit['key']} was charged {unit['attempts']} attempts where its grants are worth {charged}"
        if (unit["state"] == "dead") != (charged >= MAX_ATTEMPTS):
            yield f"{unit['key']} is {unit['state']} with {charged} attempts"


def _killers_are_found(evidence: Evidence) -> Violations:
    for unit in evidence.units:
        if unit["key"].startswith(KILLER) and unit["state"] != "dead":
            yield f"{unit['key']} kills its process and is {unit['state']}"


def _suspects_are_watched(evidence: Evidence) -> Violations:
    for grants in evidence.grants_of().values():
        lapses = 0
        for grant in grants:
            if grant["alone"] != (lapses >= 2):
                shared = "alone" if grant["alone"] else "not alone"
                yield f"unit {grant['unit_id']} was leased {shared} after {lapses} lapses"
            lapses += grant["ended_as"] == "expired"


def _no_orphans(evidence: Evidence) -> Violations:
    for grant in evidence.grants:
        if grant["ended_at"] is None or grant["ended_as"] is None:
            yield f"lease {grant['token']} of unit {grant['unit_id']} never ended"
    for unit in evidence.units:
        if unit["state"] == "leased":
            yield f"{unit['key']} is leased to {unit['worker']}"


def _one_lease_at_a_time(evidence: Evidence) -> Violations:
    for grants in evidence.grants_of().values():
        for one, other in pairwise(grants):
            if one["ended_at"] is None or other["granted_at"] < one["ended_at"]:
                yield f"unit {one['unit_id']} was granted again before its lease had ended"


def _alone_is_alone(evidence: Evidence) -> Violations:
    by_worker: dict[str, list[Row]] = defaultdict(list)
    for grant in evidence.grants:
        by_worker[grant["worker"]].append(grant)
    for worker, grants in by_worker.items():
        for alone in (grant for grant in grants if grant["alone"]):
            if any(_overlap(alone, other) for other in grants if other is not alone):
                yield f"{worker} held another lease beside unit {alone['unit_id']}, which it had alone"


def _overlap(alone: Row, other: Row) -> bool:
    """Whether both ran at one time. Of a lease that lapsed it is not known when: only that it had by its end."""
    if "expired" in (alone["ended_as"], other["ended_as"]) or None in (alone["ended_at"], other["ended_at"]):
        return False
    return bool(alone["granted_at"] < other["ended_at"] and other["granted_at"] < alone["ended_at"])


def _all_units(evidence: Evidence) -> int:
    return len(evidence.units)


def _all_grants(evidence: Evidence) -> int:
    return len(evidence.grants)


def _done(evidence: Evidence) -> int:
    return sum(unit["state"] == "done" for unit in evidence.units)


def _killers(evidence: Evidence) -> int:
    return sum(unit["key"].startswith(KILLER) for unit in evidence.units)


def _alone(evidence: Evidence) -> int:
    return sum(grant["alone"] for grant in evidence.grants)


_PROMISES: tuple[tuple[str, Callable[[Evidence], int], Callable[[Evidence], Violations]], ...] = (
    ("every unit ended", _all_units, _every_unit_ended),
    ("each result comes from exactly one lease", _done, _one_lease_a_result),
    ("each result is of its unit's audio, or says that it broke off", _done, _results_are_of_their_audio),
    ("nothing was committed after its lease had lapsed", _done, _nothing_after_a_lapse),
    ("a unit has one lease at a time", _all_grants, _one_lease_at_a_time),
    ("attempts are charged as promised", _all_units, _attempts_are_fair),
    ("units that kill their process end dead", _killers, _killers_are_found),
    ("suspects are leased alone, and only they", _all_grants, _suspects_are_watched),
    ("a process holds nothing beside a unit it has alone", _alone, _alone_is_alone),
    ("no lease is left over", _all_grants, _no_orphans),
)
