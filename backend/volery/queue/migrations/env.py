"""Alembic's entry: it runs on the connection, and in the transaction, that `schema.py` hands over."""

from __future__ import annotations

from alembic import context

from volery.queue.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    version_table=context.config.attributes["version_table"],
    target_metadata=metadata,
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
