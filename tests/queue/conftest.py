"""A job store over a real database, for every database that Volery runs on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from queue_database import Database

from volery.queue import JobStore


@pytest.fixture(params=["sqlite"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    """An empty database."""
    return {"sqlite": _sqlite}[request.param](tmp_path)


def _sqlite(folder: Path) -> Database:
    return Database(f"sqlite:///{folder / 'store.db'}")


@pytest_asyncio.fixture
async def store(database: Database) -> AsyncIterator[JobStore]:
    """A store over the database."""
    store = await database.open()
    yield store
    await store.close()
