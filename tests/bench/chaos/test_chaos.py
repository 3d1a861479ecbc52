"""The fault harness: the promises hold under fire, and it notices where one does not."""

from __future__ import annotations

import pytest

pytest.importorskip("pgserver", reason="pgserver is not installed: no PostgreSQL")

from bench.chaos import planted_bugs
from volery.bench.chaos.plan import Plan, Work
from volery.bench.chaos.run import Outcome, run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]  # one planted bug may take three runs


def broken(outcome: Outcome) -> dict[str, tuple[str, ...]]:
    return {finding.promise: finding.violations for finding in outcome.findings if finding.violations}


def test_the_promises_hold_under_fire() -> None:
    outcome = run(Plan(workers=3, units=200, seconds=30.0, seed=7))
    assert broken(outcome) == {}
    assert outcome.faults["processes crashed"] == 0
    assert {"database restarts (immediate)", "database restarts (fast)"} <= outcome.faults.keys()
    assert outcome.faults["connections cut in a commit"] > 0
    assert outcome.units["dead"] >= 1
    assert outcome.leases["expired"] > 0


@pytest.mark.parametrize(
    ("work", "promise"),
    [
        (planted_bugs.complete_without_token, "each result comes from exactly one lease"),
        (planted_bugs.complete_without_expiry, "nothing was committed after its lease had lapsed"),
        (planted_bugs.refund_that_charges, "attempts are charged as promised"),
    ],
)
def test_a_planted_bug_is_caught(work: Work, promise: str) -> None:
    """A bug shows only where a fault happens to meet it, so a run that missed it is followed by another."""
    runs = (broken(run(Plan(workers=3, units=60, seconds=15.0, seed=seed), work)) for seed in (8, 7, 9))
    assert any(promise in found for found in runs)
