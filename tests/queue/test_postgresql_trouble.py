"""A PostgreSQL server that is down, goes away, refuses, hangs or cuts connections: said in words, and nothing lost."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from queue_database import Database, unit, units_named
from sqlalchemy import text

from volery.bench.chaos.proxy import Proxy
from volery.queue import JobStore, Publication, upgrade
from volery.queue.engine import _SERVER_SETTINGS, create_engine, parse_url
from volery.units import RefundReason, ResultClass, StoreError, UnitState

if TYPE_CHECKING:
    from volery.bench.chaos.server import ThrowawayServer

PASSWORD = "hunter2secret"
OWN_SERVER = "local all keeper scram-sha-256\nlocal all all trust\n"


@pytest.fixture(scope="module")
def troubled() -> Iterator[ThrowawayServer]:
    """A server of this module's own, to be stopped; its user `keeper` needs a password."""
    pytest.importorskip("pgserver", reason="pgserver is not installed: no PostgreSQL")
    from volery.bench.chaos.server import ThrowawayServer, memory_folder

    with ThrowawayServer(memory_folder()) as server:
        (server.data_folder / "pg_hba.conf").write_text(OWN_SERVER)
        server.configure(fsync="off", deadlock_timeout="5s")
        server.sql(f"CREATE ROLE keeper LOGIN PASSWORD '{PASSWORD}';")
        yield server


@pytest.fixture
def database(postgresql: Callable[[], Database]) -> Database:
    return postgresql()


@pytest.fixture
async def proxy(server: ThrowawayServer, tmp_path: Path) -> Iterator[Proxy]:
    proxy = Proxy(tmp_path / "proxy", server.socket_folder)
    await proxy.start()
    yield proxy
    proxy.close()


def through(proxy: Proxy, database: Database) -> Database:
    return Database(f"{database.url.partition('?')[0]}?host={proxy.folder}")


async def refusal(url: str) -> str:
    with pytest.raises(StoreError) as raised:
        await Database(url).open()
    assert PASSWORD not in str(raised.value)
    return str(raised.value)


async def test_a_wrong_password_is_said_without_showing_it(troubled: ThrowawayServer) -> None:
    said = await refusal(troubled.url("postgres", user="keeper", password=f"not-{PASSWORD}"))
    assert "password authentication failed" in said
    assert "correct the user or the password in BATCH_PIPELINE_DATABASE_URL" in said


async def test_a_database_that_is_missing_is_to_be_created(server: ThrowawayServer) -> None:
    said = await refusal(server.url("nowhere"))
    assert 'database "nowhere" does not exist' in said
    assert "CREATE DATABASE" in said


async def test_a_user_without_rights_is_told_to_get_them(troubled: ThrowawayServer) -> None:
    name = troubled.create_database()
    await asyncio.to_thread(upgrade, troubled.url(name))
    assert "GRANT" in await refusal(troubled.url(name, user="keeper", password=PASSWORD))


@pytest.mark.parametrize("option", ["sslmode=disable", "ssl=disable", "application_name=mine"])
async def test_the_usual_options_of_a_url_are_understood(database: Database, option: str) -> None:
    store = await Database(f"{database.url}&{option}").open()
    await store.close()


async def test_an_option_that_the_driver_does_not_know_is_named(database: Database) -> None:
    said = await refusal(f"{database.url}&frobnicate=1")
    assert "'frobnicate'" in said
    assert "leave it out" in said


async def test_a_read_only_database_asks_for_the_primary(database: Database) -> None:
    name = database.url.partition("?")[0].rpartition("/")[2]
    await database.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    store = await database.open()
    with pytest.raises(StoreError, match="name the primary"):
        await store.submit([unit("a")])
    await store.close()


@pytest.mark.parametrize("length", [3000, 9000])
async def test_a_key_that_is_too_long_is_said_to_be(database: Database, length: int) -> None:
    store = await database.open()
    with pytest.raises(StoreError, match="a key or an owner is too long"):
        await store.submit([unit("a"), unit(secrets.token_hex(length))])
    assert (await store.counts()).available == 0
    await store.close()


async def test_a_store_outlives_its_server(troubled: ThrowawayServer) -> None:
    database = Database(troubled.url(troubled.create_database()))
    await asyncio.to_thread(upgrade, database.url)
    store = await database.open()
    await store.submit(units_named("a", "b"))
    (lease,) = await store.pull("w", 1, 600)
    troubled.stop("immediate")
    try:
        with pytest.raises(StoreError, match="cannot be used"):
            await store.pull("w", 1, 600)
        assert "that the database runs" in await refusal(database.url)
    finally:
        troubled.start()
    assert await store.complete([Publication(lease.token, "x", ResultClass.SPEECH, 1.0)]) == {lease.token}
    assert [lease.unit.key for lease in await store.pull("w", 8, 600)] == ["b"]
    await store.close()


async def test_connections_cut_between_transactions_are_not_noticed(database: Database) -> None:
    store = await database.open()
    await store.submit(units_named("a", "b"))
    await cut_connections(database)
    assert len(await store.pull("w", 1, 60)) == 1
    await cut_connections(database)
    assert (await store.counts()).available == 1
    await store.close()


async def cut_connections(database: Database) -> None:
    await database.execute(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )


async def test_a_connection_cut_before_the_commit_of_a_result_leaves_the_lease(
    proxy: Proxy, database: Database
) -> None:
    store = await through(proxy, database).open()
    await store.submit([unit("a")])
    (lease,) = await store.pull("w", 1, 60)
    publication = Publication(lease.token, "x", ResultClass.SPEECH, 1.0)
    proxy.break_in_next_commit("before")
    with pytest.raises(StoreError, match="cut the connection"):
        await store.complete([publication])
    assert await store.complete([publication]) == {lease.token}
    await store.close()


async def test_a_connection_cut_after_the_commit_of_a_result_leaves_it_committed_once(
    proxy: Proxy, database: Database
) -> None:
    store = await through(proxy, database).open()
    await store.submit([unit("a")])
    (lease,) = await store.pull("w", 1, 60)
    publication = Publication(lease.token, "x", ResultClass.SPEECH, 1.0)
    proxy.break_in_next_commit("after")
    with pytest.raises(StoreError, match="cut the connection"):
        await store.complete([publication])
    assert await store.complete([publication]) == frozenset()
    assert (await store.counts()).by_state == {UnitState.DONE: 1}
    assert [grant.ended_as for grant in await store.grants()] == ["done"]
    await store.close()


async def test_a_grant_whose_answer_was_lost_lapses_and_is_granted_again_uncharged(
    proxy: Proxy, database: Database
) -> None:
    store = await through(proxy, database).open()
    await store.submit([unit("a")])
    proxy.break_in_next_commit("after")
    with pytest.raises(StoreError):
        await store.pull("w", 1, 60)
    await database.execute("UPDATE units SET expires_at = 0")
    assert await store.reap() == 1
    assert [lease.attempts for lease in await store.pull("w", 1, 60)] == [0]
    await store.close()


async def test_a_network_that_stands_still_is_an_error_and_not_a_hang(
    proxy: Proxy, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await through(proxy, database).open()
    standing = asyncio.create_task(proxy.stand_still(600))
    await asyncio.sleep(0)
    monkeypatch.setattr(store._transactions, "_patience", 0.2)  # type: ignore[attr-defined]
    with pytest.raises(StoreError, match="it did not answer in time"):
        await store.pull("w", 1, 60)
    standing.cancel()
    await store.close()


async def test_a_store_over_a_network_that_stands_still_can_be_closed(
    proxy: Proxy, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("volery.queue.sql._FAREWELL_SECONDS", 0.2)
    store = await through(proxy, database).open()
    standing = asyncio.create_task(proxy.stand_still(600))
    await asyncio.sleep(0)
    async with asyncio.timeout(60):
        await store.close()
    standing.cancel()


async def test_once_a_connection_was_waited_for_in_vain_none_of_its_age_is_used_again(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await database.open()
    await asyncio.gather(*(store.counts() for _ in range(3)))
    before = await connections(database)
    monkeypatch.setattr(store._transactions, "_patience", 0.2)  # type: ignore[attr-defined]
    engine = create_engine(parse_url(database.url))
    async with engine.begin() as conn:
        await conn.execute(text("LOCK TABLE units"))
        with pytest.raises(StoreError, match="it did not answer in time"):
            await store.counts()
    await engine.dispose()
    monkeypatch.setattr(store._transactions, "_patience", 60.0)  # type: ignore[attr-defined]
    await asyncio.gather(*(store.counts() for _ in range(3)))
    assert len(before) == 3
    assert before.isdisjoint(await connections(database))
    await store.close()


async def connections(database: Database) -> set[int]:
    others = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    return {row.pid for row in await database.execute(others)}


async def test_a_statement_that_waits_too_long_is_given_up(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    store = await database.open()
    await store.submit([unit("a")])
    (lease,) = await store.pull("w", 1, 600)
    await store.close()
    monkeypatch.setitem(_SERVER_SETTINGS, "statement_timeout", "1s")
    store = await database.open()
    engine = create_engine(parse_url(database.url))
    async with engine.begin() as conn:
        await conn.execute(text("SELECT * FROM units FOR UPDATE"))
        with pytest.raises(StoreError, match="something holds locks"):
            await store.renew([lease.token], 600)
    assert await store.renew([lease.token], 600) == {lease.token}
    await engine.dispose()
    await store.close()


async def test_the_victim_of_a_deadlock_begins_again(troubled: ThrowawayServer) -> None:
    database = Database(troubled.url(troubled.create_database()))
    await asyncio.to_thread(upgrade, database.url)
    store = await database.open()
    await store.submit(units_named("a", "b"))
    leases = await store.pull("w", 2, 600)
    engine = create_engine(parse_url(database.url))
    async with engine.begin() as other:
        # The store is to find out and be the victim: it looks five seconds after it began to wait, the other never.
        await other.execute(text("SET LOCAL deadlock_timeout = '600s'"))
        await other.execute(text("UPDATE units SET stream = stream WHERE key = 'b'"))
        refund = asyncio.create_task(store.refund([lease.token for lease in leases], RefundReason.DRAIN))
        await waiting_for_locks(database, 1)
        await other.execute(text("UPDATE units SET stream = stream WHERE key = 'a'"))
    assert await refund == {lease.token for lease in leases}
    await engine.dispose()
    await store.close()


async def waiting_for_locks(database: Database, count: int) -> None:
    waiting = "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    while len(await database.execute(waiting)) < count:
        await asyncio.sleep(0.01)


async def test_holders_and_operators_lock_in_one_order(database: Database) -> None:
    store = await database.open()
    await store.submit(units_named(*(f"u{number}" for number in range(40))))
    leases = await store.pull("w", 32, 600)
    tokens = [lease.token for lease in leases]
    for _ in range(5):
        await asyncio.gather(
            store.renew(tokens, 600),
            store.renew(tokens[::-1], 600),
            store.complete([Publication(token, "x", ResultClass.SPEECH, 1.0) for token in tokens[::-3]]),
            store.refund(tokens[::5], RefundReason.DRAIN),
            store.refund(tokens[::-7], RefundReason.QUARANTINE),
            store.cancel([f"u{number}" for number in range(39, -1, -4)]),
            store.reap(),
        )
    await store.close()
    assert await deadlocks(database) == 0


async def deadlocks(database: Database) -> int:
    (row,) = await database.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
    return int(row.deadlocks)


async def test_an_idle_worker_wakes_when_something_is_submitted(database: Database) -> None:
    idle, busy = await database.open(), await database.open()
    await idle.wait_for_work(600)  # the first wait ends when it listens
    waiting = asyncio.create_task(idle.wait_for_work(600))
    await busy.submit([unit("a")])
    await waiting
    await close(idle, busy)


async def test_a_submission_that_changes_nothing_wakes_nobody(database: Database) -> None:
    idle, busy = await database.open(), await database.open()
    await busy.submit([unit("a")])
    await idle.wait_for_work(600)
    waiting = asyncio.create_task(idle.wait_for_work(600))
    await busy.submit([unit("a")])
    await busy.pull("w", 1, 60)
    assert not waiting.done()
    waiting.cancel()
    await close(idle, busy)


async def test_a_listener_that_lost_its_connection_listens_again(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("volery.queue.listening._RETRY_SECONDS", (0.01, 0.01))
    idle, busy = await database.open(), await database.open()
    await idle.wait_for_work(600)
    await cut_connections(database)
    await idle.wait_for_work(600)  # it looks once itself: a submission may have been missed
    waiting = asyncio.create_task(idle.wait_for_work(600))
    await busy.submit([unit("a")])
    await waiting
    await close(idle, busy)


async def test_a_wait_for_work_ends_by_itself(store: JobStore) -> None:
    for _ in range(3):
        await store.wait_for_work(0.01)


async def close(*stores: JobStore) -> None:
    for store in stores:
        await store.close()
