"""The database behind a store under test, reached past the store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import SecretStr
from sqlalchemy import Executable, text, update
from sqlalchemy.ext.asyncio import AsyncEngine

from volery.queue import JobStore, open_store
from volery.queue.dialects import now
from volery.queue.engine import create_engine, parse_url, writing
from volery.queue.tables import units
from volery.settings import QueueSettings
from volery.units import Lease, Unit


@dataclass(frozen=True)
class Database:
    """A database under its URL, reached through an engine where one is given."""

    url: str
    engine: AsyncEngine | None = None

    def settings(self, **changed: Any) -> QueueSettings:
        """Settings for a store over it; units that fail do not wait unless a test says so."""
        return QueueSettings(**{"database_url": SecretStr(self.url), "retry_base_seconds": 0.0, **changed})

    async def open(self, **changed: Any) -> JobStore:
        """A store over it."""
        return await open_store(self.settings(**changed))

    async def execute(self, statement: Executable | str) -> list[Any]:
        """Run a statement in a transaction of its own; its rows, where it has any."""
        engine = self.engine or create_engine(parse_url(self.url))
        try:
            async with writing(engine).begin() as conn:
                result = await conn.execute(text(statement) if isinstance(statement, str) else statement)
                return list(result.all()) if result.returns_rows else []
        finally:
            if self.engine is None:
                await engine.dispose()

    async def lapse(self, leases: list[Lease]) -> None:
        """Let the leases' time run out."""
        tokens = [lease.token for lease in leases]
        await self.execute(update(units).where(units.c.token.in_(tokens)).values(expires_at=now() - 1.0))

    async def forward(self, key: str) -> None:
        """Let a unit's wait for its next attempt run out."""
        await self.execute(update(units).where(units.c.key == key).values(available_at=now() - 1.0))


def unit(key: str, **changed: Any) -> Unit:
    """A unit whose audio is its own unless a test says so."""
    return Unit(key=key, **{"audio_uri": f"file:///audio/{key}.wav", **changed})


def units_named(*keys: str, **changed: Any) -> list[Unit]:
    """One unit for each key."""
    return [unit(key, **changed) for key in keys]


def keys_of(leases: list[Lease]) -> list[str]:
    """The keys of the leased units, in their order."""
    return [lease.unit.key for lease in leases]
