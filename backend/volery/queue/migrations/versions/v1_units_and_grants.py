"""Units and their grants."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "1"
down_revision = None

_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_READY = sa.text("state = 'ready'")
_LEASED = sa.text("state = 'leased'")
_LIVE = sa.text("ended_at IS NULL")


def upgrade() -> None:
    """Create both tables."""
    _units()
    _grants()


def _units() -> None:
    op.create_table(
        "units",
        sa.Column("id", _ID, primary_key=True),
        sa.Column("key", sa.Text, nullable=False, unique=True),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("priority", sa.Integer, nullable=False),
        sa.Column("audio_uri", sa.Text, nullable=False),
        sa.Column("clip_start_s", sa.Double),
        sa.Column("clip_end_s", sa.Double),
        sa.Column("num_speakers", sa.Integer),
        sa.Column("language", sa.Text),
        sa.Column("stream", sa.Text),
        sa.Column("place", sa.BigInteger),
        sa.Column("privacy_generation", sa.BigInteger, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("rank", sa.BigInteger, nullable=False),
        sa.Column("submitted_at", sa.Double, nullable=False),
        sa.Column("available_at", sa.Double, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("suspicion", sa.Integer, nullable=False),
        sa.Column("quarantines", sa.Integer, nullable=False),
        sa.Column("token", sa.Text, unique=True),
        sa.Column("worker", sa.Text),
        sa.Column("expires_at", sa.Double),
        sa.Column("alone", sa.Boolean, nullable=False),
        sa.Column("reason", sa.Text),
        sa.Column("error", sa.Text),
        sa.Column("result_class", sa.Text),
        sa.Column("artifact", sa.Text),
        sa.Column("duration_s", sa.Double),
        sa.Column("finished_at", sa.Double),
    )
    order: list[str | sa.TextClause] = ["state", sa.text("priority DESC"), "rank", "id", "suspicion", "available_at"]
    op.create_index("units_queue", "units", order)
    _index("units_owner", "units", ["owner", "priority", "rank"], _READY)
    _index("units_leased", "units", ["worker", "expires_at"], _LEASED)


def _grants() -> None:
    op.create_table(
        "grants",
        sa.Column("id", _ID, primary_key=True),
        sa.Column("token", sa.Text, nullable=False, unique=True),
        sa.Column("unit_id", _ID, sa.ForeignKey("units.id"), nullable=False),
        sa.Column("worker", sa.Text, nullable=False),
        sa.Column("granted_at", sa.Double, nullable=False),
        sa.Column("ended_at", sa.Double),
        sa.Column("ended_as", sa.Text),
        sa.Column("alone", sa.Boolean, nullable=False),
        sa.Column("priority", sa.Integer, nullable=False),
        sa.Column("rank", sa.BigInteger, nullable=False),
    )
    op.create_index("grants_unit", "grants", ["unit_id"])
    _index("grants_live", "grants", ["unit_id"], _LIVE, unique=True)
    op.create_index("grants_rank", "grants", ["priority", "rank"])


def _index(name: str, table: str, columns: list[str], where: sa.TextClause, *, unique: bool = False) -> None:
    op.create_index(name, table, columns, unique=unique, sqlite_where=where, postgresql_where=where)
