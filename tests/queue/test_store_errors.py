"""A store that cannot be used says why and what to do, and never its password."""

from __future__ import annotations

import re
import socket
import sqlite3
from pathlib import Path

import pytest
from pydantic import SecretStr
from queue_database import Database, unit

from volery.queue import JobStore, open_store, upgrade
from volery.queue.engine import parse_url
from volery.queue.errors import store_errors
from volery.settings import QueueSettings
from volery.units import StoreError

PASSWORD = "hunter2secret"


async def refusal(url: str) -> str:
    """What opening the store at a URL says."""
    with pytest.raises(StoreError) as raised:
        await open_store(QueueSettings(database_url=SecretStr(url)))
    return str(raised.value)


@pytest.mark.parametrize(
    "url", ["", "no url", f"://{PASSWORD}", f"postgresql://me:{PASSWORD}@host:port/db", f"postgresql:{PASSWORD}"]
)
async def test_what_is_no_url_is_named_by_its_setting(url: str) -> None:
    said = await refusal(url)
    assert "BATCH_PIPELINE_DATABASE_URL is not a database URL" in said
    assert PASSWORD not in said


@pytest.mark.parametrize(
    "rest",
    [
        "me:one@{}@host/db",
        "me:one@{}/two#three@host/db",
        "me:one@host/{}@host/db",
        "me:one@{}:12/two@host/db",
        "me:one@{}?two@host/db",
        "me:one@{}?two=three@host/db",
        "m/e:{}@host/db",
        "host:5432/db?password=one@{}",
        "host?password=one@{}",
    ],
)
async def test_a_password_with_an_at_sign_is_taken_for_no_host_database_or_option(rest: str) -> None:
    said = await refusal("postgresql://" + rest.format(PASSWORD))
    assert "percent-encode special characters" in said
    assert "@ as %40, / as %2F" in said
    assert not {PASSWORD, "two", "three"} & set(re.split(r"\W", said))


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me%40there:one%40two%2Fthree@host/d%40b",
        "postgresql://me@there:one@host/db",
        "postgresql://me:o/n?e#@host/db",
        "postgresql://host/db?user=me@there&password=one@two",
    ],
)
def test_a_url_that_reads_one_way_is_taken(url: str) -> None:
    assert parse_url(url).host == "host"


def test_an_option_that_may_be_the_rest_of_a_password_is_not_shown() -> None:
    url = parse_url(f"postgresql://host/db?password=one&{PASSWORD}=")
    with pytest.raises(StoreError, match="has an option that the driver does not know") as raised, store_errors(url):
        raise TypeError(f"connect() got an unexpected keyword argument '{PASSWORD}'")
    assert PASSWORD not in str(raised.value)


@pytest.mark.parametrize("url", ["sqlite://folder/volery.db", f"sqlite://me:one@{PASSWORD}/two@host/volery.db"])
async def test_a_file_has_no_host(url: str) -> None:
    said = await refusal(url)
    assert "write sqlite:////folder/volery.db" in said
    assert PASSWORD not in said


async def test_other_databases_are_refused() -> None:
    said = await refusal(f"mysql://me:{PASSWORD}@host/db")
    assert "'mysql'; Volery runs on sqlite and postgresql" in said
    assert PASSWORD not in said


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:"])
async def test_a_store_in_memory_is_refused(url: str) -> None:
    assert "names no file" in await refusal(url)


async def test_a_server_that_does_not_answer_is_named_without_its_password() -> None:
    with socket.socket() as unanswered:  # bound and never listening: connections are refused
        unanswered.bind(("127.0.0.1", 0))
        port = unanswered.getsockname()[1]
        said = await refusal(f"postgresql://me:{PASSWORD}@127.0.0.1:{port}/jobs")
    assert f"the PostgreSQL store jobs at 127.0.0.1:{port} cannot be used" in said
    assert "check BATCH_PIPELINE_DATABASE_URL and that the database runs" in said
    assert PASSWORD not in said


@pytest.mark.parametrize("url", [f"postgresql://me:{PASSWORD}@host/db", f"postgresql://host/db?password={PASSWORD}"])
def test_a_driver_that_repeats_the_password_is_not_passed_on(url: str) -> None:
    with pytest.raises(StoreError, match=r"no such host: me:\*\*\*@host") as raised, store_errors(parse_url(url)):
        raise OSError(f"no such host: me:{PASSWORD}@host")
    assert PASSWORD not in str(raised.value)


async def test_a_file_that_is_no_database_is_left_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_bytes(b"these are notes, not a database. " * 200)
    before = file.read_bytes()
    assert "name another file" in await refusal(f"sqlite:///{file}")
    assert file.read_bytes() == before


async def test_a_folder_is_no_database(tmp_path: Path) -> None:
    assert "check that its folder exists and that this user may write there" in await refusal(f"sqlite:///{tmp_path}")


async def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    said = await refusal(f"sqlite:///{tmp_path}/file/volery.db")
    assert "cannot create its folder" in said
    assert str(tmp_path) in said


async def test_the_folder_of_an_embedded_store_is_made(tmp_path: Path) -> None:
    store = await open_store(QueueSettings(database_url=SecretStr(f"sqlite:///{tmp_path}/a/b/volery.db")))
    await store.close()
    assert (tmp_path / "a/b/volery.db").is_file()


async def test_who_only_reads_makes_no_store(tmp_path: Path) -> None:
    settings = QueueSettings(database_url=SecretStr(f"sqlite:///{tmp_path}/mistyped/volery.db"))
    with pytest.raises(StoreError, match=r"mistyped/volery\.db does not exist: correct BATCH_PIPELINE_DATABASE_URL"):
        await open_store(settings, create=False)
    assert list(tmp_path.iterdir()) == []


async def test_who_only_reads_makes_no_tables_in_a_file_of_something_else(tmp_path: Path) -> None:
    file = tmp_path / "other.db"
    with sqlite3.connect(file) as other:
        other.execute("CREATE TABLE recipes (name TEXT)")
    other.close()
    before = file.read_bytes()
    with pytest.raises(StoreError, match="has no schema"):
        await open_store(QueueSettings(database_url=SecretStr(f"sqlite:///{file}")), create=False)
    assert file.read_bytes() == before


async def test_who_only_reads_opens_a_store_that_is_there(tmp_path: Path) -> None:
    settings = QueueSettings(database_url=SecretStr(f"sqlite:///{tmp_path}/volery.db"))
    await (await open_store(settings)).close()
    await (await open_store(settings, create=False)).close()


async def test_a_store_that_is_mounted_read_only_is_refused(tmp_path: Path) -> None:
    upgrade_file = tmp_path / "volery.db"
    store = await open_store(QueueSettings(database_url=SecretStr(f"sqlite:///{upgrade_file}")))
    read_only = await open_store(
        QueueSettings(database_url=SecretStr(f"sqlite:///file:{upgrade_file}?mode=ro&uri=true"))
    )
    with pytest.raises(StoreError, match="the store must be writable"):
        await read_only.submit([unit("a")])
    await read_only.close()
    await store.close()


async def test_another_application_s_tables_are_not_touched(tmp_path: Path) -> None:
    file = tmp_path / "other.db"
    with sqlite3.connect(file) as other:
        other.execute("CREATE TABLE units (name TEXT)")
    other.close()
    assert "give Volery a database of its own" in await refusal(f"sqlite:///{file}")
    with sqlite3.connect(file) as other:
        assert other.execute("SELECT name FROM sqlite_master").fetchall() == [("units",)]
    other.close()


async def test_tables_that_vanish_are_an_error_with_advice(store: JobStore, database: Database) -> None:
    await database.execute("DROP TABLE grants")
    with pytest.raises(StoreError, match=r"cannot be used: .*grants.*; .*volery db upgrade"):
        await store.grants()


async def test_an_error_shows_no_statement_and_no_parameter(store: JobStore, database: Database) -> None:
    await database.execute("ALTER TABLE units RENAME TO gone")
    with pytest.raises(StoreError) as raised:
        await store.cancel(["a private key"])
    error: BaseException | None = raised.value
    said = []
    while error is not None:
        said.append(str(error))
        error = error.__cause__
    assert "a private key" not in " ".join(said)
    assert "UPDATE" not in said[0]


def test_upgrade_says_what_is_wrong_too(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="this user may write there"):
        upgrade(f"sqlite:///{tmp_path}")
