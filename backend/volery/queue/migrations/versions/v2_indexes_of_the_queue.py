"""Indexes that hold what is waiting alone, so that renewals and ends of units touch fewer of them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "2"
down_revision = "1"

_READY = sa.text("state = 'ready'")
_LEASED = sa.text("state = 'leased'")


def upgrade() -> None:
    """Replace both partial indexes and the queue's; the schema before runs on these as well."""
    op.drop_index("units_queue", "units")
    order: list[str | sa.TextClause] = [sa.text("priority DESC"), "rank", "id", "suspicion", "available_at"]
    op.create_index("units_queue", "units", order, sqlite_where=_READY, postgresql_where=_READY)
    op.create_index("units_state", "units", ["state", "finished_at"])
    op.drop_index("units_leased", "units")
    op.create_index("units_leased", "units", ["worker"], sqlite_where=_LEASED, postgresql_where=_LEASED)
