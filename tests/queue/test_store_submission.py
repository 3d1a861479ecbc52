"""Submission: what is new, what is there already, what conflicts."""

from __future__ import annotations

import time

import pytest
from queue_database import Database, keys_of, unit, units_named

from volery.queue import JobStore, Publication, Submitted
from volery.units import (
    Clip,
    KeyConflictError,
    Reason,
    RefundReason,
    ResultClass,
    StoreError,
    Unit,
    UnitOptions,
    UnitState,
)

EVERYTHING = Unit(
    key="whole",
    audio_uri="gs://bucket/ä b.wav",
    owner="radio",
    priority=-3,
    clip=Clip(1.5, 4.0),
    options=UnitOptions(num_speakers=2, language="de"),
    stream="monday",
    place=7,
    privacy_generation=1 << 40,
)


async def test_a_unit_comes_back_as_it_was_submitted(store: JobStore) -> None:
    await store.submit([EVERYTHING])
    record = await store.get("whole")
    assert record is not None
    assert record.unit == EVERYTHING
    assert (record.state, record.attempts, record.finished_at) == (UnitState.READY, 0, None)
    assert [lease.unit for lease in await store.pull("w", 1, 60)] == [EVERYTHING]


async def test_a_unit_that_was_never_submitted_is_nothing(store: JobStore) -> None:
    assert await store.get("unheard of") is None


async def test_the_same_audio_again_changes_nothing(store: JobStore) -> None:
    await store.submit(units_named("a", "b"))
    before = await store.get("a")
    assert await store.submit([unit("a", priority=9), unit("c")]) == Submitted(new=1, unchanged=1)
    assert await store.get("a") == before


async def test_no_clip_and_a_clip_of_the_whole_file_are_the_same_audio(store: JobStore) -> None:
    await store.submit([unit("a")])
    assert await store.submit([unit("a", clip=Clip())]) == Submitted(unchanged=1)


@pytest.mark.parametrize("changed", [{"audio_uri": "file:///other"}, {"clip": Clip(0.0, 2.0)}])
async def test_other_audio_under_a_known_key_is_a_conflict_and_nothing_is_added(
    store: JobStore, changed: dict[str, object]
) -> None:
    await store.submit([unit("a")])
    with pytest.raises(KeyConflictError, match="a") as raised:
        await store.submit([unit("new"), unit("a", **changed)])
    assert raised.value.keys == ("a",)
    assert await store.get("new") is None


async def test_one_batch_with_two_audios_under_one_key_is_a_conflict(store: JobStore) -> None:
    with pytest.raises(KeyConflictError) as raised:
        await store.submit([unit("a"), unit("a", audio_uri="file:///other"), unit("b")], replace=True)
    assert raised.value.keys == ("a",)
    assert await store.get("b") is None


async def test_a_key_twice_in_one_batch_is_one_unit(store: JobStore) -> None:
    assert await store.submit([unit("a"), unit("a")]) == Submitted(new=1, unchanged=1)


async def test_a_replaced_unit_starts_anew(store: JobStore) -> None:
    await store.submit([unit("a")])
    (lease,) = await store.pull("w", 1, 60)
    await store.fail(lease.token, Reason.SPEECH_FAILED, "once")
    assert await store.submit([unit("a", audio_uri="file:///other", owner="o")], replace=True) == Submitted(replaced=1)
    record = await store.get("a")
    assert record is not None
    assert record.unit == unit("a", audio_uri="file:///other", owner="o")
    assert (record.state, record.attempts, record.reason, record.error) == (UnitState.READY, 0, None, None)


async def test_replacing_a_leased_unit_takes_the_lease_away(store: JobStore) -> None:
    await store.submit([unit("a")])
    (lease,) = await store.pull("w", 1, 60)
    await store.submit([unit("a", audio_uri="file:///other")], replace=True)
    assert not await store.complete([Publication(lease.token, "artifact", ResultClass.SPEECH, 1.0)])
    assert [grant.ended_as for grant in await store.grants("a")] == ["replaced"]
    assert [lease.unit.audio_uri for lease in await store.pull("w", 1, 60)] == ["file:///other"]


async def test_replacing_with_the_same_audio_leaves_the_lease_alone(store: JobStore) -> None:
    await store.submit([unit("a")])
    (lease,) = await store.pull("w", 1, 60)
    assert await store.submit([unit("a")], replace=True) == Submitted(unchanged=1)
    assert await store.renew([lease.token], 60) == {lease.token}


async def test_thousands_of_units_arrive_at_once(store: JobStore) -> None:
    batch = units_named(*(f"u{number}" for number in range(3000)))
    assert await store.submit(batch) == Submitted(new=3000)
    assert await store.submit(batch) == Submitted(unchanged=3000)
    assert [record.unit async for record in store.records()] == batch
    assert (await store.counts()).available == 3000


@pytest.mark.parametrize(
    "changed",
    [
        {"audio_uri": "file:///\udcff.wav"},
        {"stream": "a\0b"},
        {"clip": Clip(float("nan"), None)},
        {"clip": Clip(0.0, float("inf"))},
        {"place": 1 << 63},
        {"priority": 1 << 31},
    ],
)
async def test_what_no_database_keeps_is_refused_by_name(store: JobStore, changed: dict[str, object]) -> None:
    with pytest.raises(StoreError, match=rf"unit 'bad'.*{next(iter(changed))[:4]}"):
        await store.submit([unit("good"), unit("bad", **changed)])
    assert await store.get("good") is None


async def test_the_clock_is_the_database_s(
    store: JobStore, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.time", lambda: 0.0)
    await store.submit([unit("a")])
    (lease,) = await store.pull("w", 1, 60)
    (row,) = await database.execute("SELECT submitted_at, available_at FROM units")
    assert row.submitted_at > 1_700_000_000
    assert row.available_at == pytest.approx(row.submitted_at, abs=1)
    assert 0 <= lease.expires_at - 60 - row.submitted_at < 60
    assert keys_of([lease]) == ["a"]


@pytest.mark.parametrize("off_s", [-3600.0, 3600.0])
async def test_a_worker_whose_clock_is_an_hour_off_keeps_and_completes_its_leases(
    store: JobStore, monkeypatch: pytest.MonkeyPatch, off_s: float
) -> None:
    await store.submit([unit("a"), unit("b")])
    right = time.time
    monkeypatch.setattr("time.time", lambda: right() + off_s)
    kept, given_back = await store.pull("w", 2, 60)
    assert await store.reap() == 0
    assert await store.renew([kept.token], 60) == {kept.token}
    assert await store.complete([Publication(kept.token, "result", ResultClass.SPEECH, 1.0)]) == {kept.token}
    assert await store.refund([given_back.token], RefundReason.DRAIN) == {given_back.token}
    assert (await store.counts()).by_state == {UnitState.DONE: 1, UnitState.READY: 1}
