"""The store against a model of it, small enough to be read."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from queue_database import Database, unit

from volery.queue import Publication
from volery.queue.engine import create_engine, parse_url
from volery.units import Lease, Reason, RefundReason, ResultClass, UnitState

T = TypeVar("T")
MAX_ATTEMPTS = 2
KEYS = st.sampled_from([f"u{number}" for number in range(6)])
WORKERS = st.sampled_from(["w1", "w2"])


@dataclass
class Modelled:
    """A unit as the model sees it."""

    state: UnitState = UnitState.READY
    attempts: int = 0
    suspicion: int = 0
    quarantines: int = 0
    token: str = ""
    worker: str = ""
    alone: bool = False
    lapsed: bool = False

    def holds(self, token: str) -> bool:
        return self.state is UnitState.LEASED and self.token == token and not self.lapsed

    def charge(self) -> None:
        self.attempts += 1
        self.state = UnitState.DEAD if self.attempts >= MAX_ATTEMPTS else UnitState.READY


class StoreMachine(RuleBasedStateMachine):
    """Everything workers and operators do, in any order."""

    url: str

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.database = Database(self.url, create_engine(parse_url(self.url)))
        self.store = self.run(self.database.open(max_attempts=MAX_ATTEMPTS))
        for table in ("grants", "units"):
            self.run(self.database.execute(f"DELETE FROM {table}"))
        self.units: dict[str, Modelled] = {}
        self.audio: dict[str, int] = {}
        self.granted: list[Lease] = []

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def teardown(self) -> None:
        self.run(self.store.close())
        assert self.database.engine is not None
        self.run(self.database.engine.dispose())
        self.loop.close()

    @rule(key=KEYS)
    def submit(self, key: str) -> None:
        new = key not in self.units
        done = self.run(self.store.submit([unit(key, audio_uri=f"file:///{self.audio.setdefault(key, 0)}")]))
        assert (done.new, done.unchanged) == (int(new), int(not new))
        self.units.setdefault(key, Modelled())

    @rule(key=KEYS)
    def replace(self, key: str) -> None:
        self.audio[key] = self.audio.get(key, 0) + 1
        replaced = key in self.units
        done = self.run(self.store.submit([unit(key, audio_uri=f"file:///{self.audio[key]}")], replace=True))
        assert (done.new, done.replaced) == (int(not replaced), int(replaced))
        self.units[key] = Modelled()

    @rule(worker=WORKERS, limit=st.integers(1, 8))
    def pull(self, worker: str, limit: int) -> None:
        held = [one for one in self.units.values() if one.worker == worker and one.holds(one.token)]
        ready = [one.suspicion for one in self.units.values() if one.state is UnitState.READY]
        leases = self.run(self.store.pull(worker, limit, 600))
        for lease in leases:
            modelled = self.units[lease.unit.key]
            assert modelled.state is UnitState.READY
            assert lease.attempts == modelled.attempts
            modelled.state, modelled.token, modelled.worker = UnitState.LEASED, lease.token, worker
            modelled.alone, modelled.lapsed = lease.alone, False
        self.granted += leases
        self._check_flight(leases, held, ready, limit)

    def _check_flight(self, leases: list[Lease], held: list[Modelled], ready: list[int], limit: int) -> None:
        if any(one.alone for one in held):
            assert not leases
            return
        if not leases:
            assert not ready or (held and 2 in ready)
            return
        (suspicion,) = {self.units[lease.unit.key].suspicion for lease in leases}
        size = [limit, max(1, limit // 4), 1][suspicion]
        assert len(leases) == min(size, ready.count(suspicion))
        assert {lease.alone for lease in leases} == {suspicion == 2}
        assert suspicion < 2 or not held

    @precondition(lambda self: self.granted)
    @rule(data=st.data())
    def lapse(self, data: st.DataObject) -> None:
        lease = data.draw(st.sampled_from(self.granted))
        self.run(self.database.lapse([lease]))
        for one in self.units.values():
            one.lapsed |= one.token == lease.token

    @rule()
    def reap(self) -> None:
        lapsed = [one for one in self.units.values() if one.state is UnitState.LEASED and one.lapsed]
        assert self.run(self.store.reap()) == len(lapsed)
        for one in lapsed:
            if one.alone:
                one.charge()
            else:
                one.suspicion, one.state = min(2, one.suspicion + 1), UnitState.READY

    @precondition(lambda self: self.granted)
    @rule(data=st.data(), end=st.sampled_from(["complete", "reject", "fail", "refund", "quarantine", "renew"]))
    def end(self, data: st.DataObject, end: str) -> None:
        lease = data.draw(st.sampled_from(self.granted))
        modelled = self.units[lease.unit.key]
        holds = modelled.holds(lease.token)
        assert bool(self.run(self._end(end, lease.token))) == holds
        if holds:
            self._end_modelled(end, modelled)

    async def _end(self, end: str, token: str) -> object:
        match end:
            case "complete":
                return await self.store.complete([Publication(token, token, ResultClass.SPEECH, 1.0)])
            case "reject":
                return await self.store.reject(token, Reason.AUDIO_EMPTY, "empty")
            case "fail":
                return await self.store.fail(token, Reason.SPEECH_FAILED, "boom")
            case "renew":
                return await self.store.renew([token], 600)
        return await self.store.refund([token], RefundReason.QUARANTINE if end == "quarantine" else RefundReason.DRAIN)

    def _end_modelled(self, end: str, modelled: Modelled) -> None:
        match end:
            case "complete":
                modelled.state = UnitState.DONE
            case "reject":
                modelled.state = UnitState.REJECTED
            case "fail":
                modelled.charge()
            case "refund":
                modelled.state = UnitState.READY
            case "quarantine":
                modelled.state = UnitState.READY
                if modelled.quarantines:
                    modelled.charge()
                modelled.quarantines += 1

    @rule(key=KEYS)
    def cancel(self, key: str) -> None:
        unfinished = key in self.units and not self.units[key].state.is_final
        assert self.run(self.store.cancel([key])) == int(unfinished)
        if unfinished:
            self.units[key].state = UnitState.CANCELLED

    @rule(key=KEYS)
    def requeue(self, key: str) -> None:
        final = key in self.units and self.units[key].state.is_final
        assert self.run(self.store.requeue([key])) == int(final)
        if final:
            self.units[key] = Modelled()

    @invariant()
    def store_and_model_agree(self) -> None:
        rows = self.run(self.database.execute("SELECT key, state, attempts, suspicion, quarantines FROM units"))
        found = {row.key: tuple(row)[1:] for row in rows}
        modelled = {
            key: (one.state.value, one.attempts, one.suspicion, one.quarantines) for key, one in self.units.items()
        }
        assert found == modelled
        assert all(one.attempts <= MAX_ATTEMPTS for one in self.units.values())

    @invariant()
    def grants_are_of_leases_that_run_or_have_ended(self) -> None:
        grants = self.run(self.store.grants())
        live = {grant.token for grant in grants if grant.ended_as is None}
        assert live == {one.token for one in self.units.values() if one.state is UnitState.LEASED}
        assert all((grant.ended_at is None) == (grant.ended_as is None) for grant in grants)
        assert len({grant.token for grant in grants}) == len(grants) == len(self.granted)


def test_the_store_behaves_as_its_model(database: Database) -> None:
    StoreMachine.url = database.url
    machine = StoreMachine.TestCase
    machine.settings = settings(
        max_examples=15, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
    )
    machine().runTest()
