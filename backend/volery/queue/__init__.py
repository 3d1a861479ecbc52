"""The job store: units, their leases and their ends."""

from volery.queue.engine import missing_store
from volery.queue.schema import upgrade
from volery.queue.sql import open_store
from volery.queue.store import Counts, Grant, JobStore, Publication, Submitted, UnitRecord

__all__ = [
    "Counts",
    "Grant",
    "JobStore",
    "Publication",
    "Submitted",
    "UnitRecord",
    "missing_store",
    "open_store",
    "upgrade",
]
