"""Alembic runs this file; the connection, its transaction and its lock are migrate.py's."""

from alembic import context

from gemhooks.ledger.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=True,  # alembic thinks SQLite can't; with our BEGIN it can
)
with context.begin_transaction():
    context.run_migrations()
