"""The tables of the job store, as this version of the code knows them.

Times are seconds since the epoch by the database's clock.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Double, ForeignKey, Index, Integer, MetaData, Table, Text, text

metadata = MetaData()

_ID = BigInteger().with_variant(Integer, "sqlite")  # only INTEGER keys count up by themselves on SQLite

units = Table(
    "units",
    metadata,
    Column("id", _ID, primary_key=True),
    Column("key", Text, nullable=False, unique=True),
    Column("owner", Text, nullable=False),
    Column("priority", Integer, nullable=False),
    Column("audio_uri", Text, nullable=False),
    Column("clip_start_s", Double),
    Column("clip_end_s", Double),
    Column("num_speakers", Integer),
    Column("language", Text),
    Column("stream", Text),
    Column("place", BigInteger),
    Column("privacy_generation", BigInteger, nullable=False),
    Column("state", Text, nullable=False),
    # Its turn among the units of all owners at its priority; see `submission.next_ranks`.
    Column("rank", BigInteger, nullable=False),
    Column("submitted_at", Double, nullable=False),
    Column("available_at", Double, nullable=False),
    # Attempts charged so far: a unit that was done at once has none.
    Column("attempts", Integer, nullable=False),
    # 0: none; 1: leased in smaller flights; 2: leased alone.
    Column("suspicion", Integer, nullable=False),
    Column("quarantines", Integer, nullable=False),
    # The latest lease. It holds while the state is `leased` and it has not expired.
    Column("token", Text, unique=True),
    Column("worker", Text),
    Column("expires_at", Double),
    Column("alone", Boolean, nullable=False),
    Column("reason", Text),
    Column("error", Text),
    Column("result_class", Text),
    Column("artifact", Text),
    Column("duration_s", Double),
    Column("finished_at", Double),
)

_READY = text("state = 'ready'")
_LEASED = text("state = 'leased'")
_LIVE = text("ended_at IS NULL")

# A pull reads one range of this, in order. The last two columns let it pass over units that are
# backing off, or whose suspicion is not the head's, without reading their rows.
Index(
    "units_queue",
    units.c.priority.desc(),
    units.c.rank,
    units.c.id,
    units.c.suspicion,
    units.c.available_at,
    sqlite_where=_READY,
    postgresql_where=_READY,
)
Index(
    "units_owner",
    units.c.owner,
    units.c.priority,
    units.c.rank,
    sqlite_where=_READY,
    postgresql_where=_READY,
)
# Without the expiry: PostgreSQL renews a lease without touching any index.
Index("units_leased", units.c.worker, sqlite_where=_LEASED, postgresql_where=_LEASED)
# Counts by state, and the units that ended last or long ago.
Index("units_state", units.c.state, units.c.finished_at)

grants = Table(
    "grants",
    metadata,
    Column("id", _ID, primary_key=True),
    Column("token", Text, nullable=False, unique=True),
    Column("unit_id", _ID, ForeignKey("units.id"), nullable=False),
    Column("worker", Text, nullable=False),
    Column("granted_at", Double, nullable=False),
    Column("ended_at", Double),
    Column("ended_as", Text),
    Column("alone", Boolean, nullable=False),
    # The unit's at the time: the highest rank ever granted is the queue's virtual time.
    Column("priority", Integer, nullable=False),
    Column("rank", BigInteger, nullable=False),
)

Index("grants_unit", grants.c.unit_id)
# Whatever the code does, the database holds at most one running lease of a unit.
Index("grants_live", grants.c.unit_id, unique=True, sqlite_where=_LIVE, postgresql_where=_LIVE)
Index("grants_rank", grants.c.priority, grants.c.rank)
