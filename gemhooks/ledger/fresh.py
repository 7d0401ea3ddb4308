"""The tables of a new database, made at once: Alembic, which goes step by step, takes 10 MiB."""

import sqlalchemy as sa

from gemhooks.ledger.tables import COUNTS_UP, WHERE, metadata

# As Alembic makes it.
_version = sa.Table(
    "alembic_version",
    sa.MetaData(),
    sa.Column("version_num", sa.String(32), nullable=False),
    sa.PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)


def create(connection: sa.Connection, version: str) -> None:
    """Make what the migrations up to *version*, the newest, would have made."""
    for table in metadata.tables.values():
        _spell(table, connection.dialect.name)
    metadata.create_all(connection, checkfirst=False)
    _version.create(connection)
    connection.execute(_version.insert().values(version_num=version))


def _spell(table: sa.Table, dialect: str) -> None:
    if dialect == "sqlite":
        table.dialect_kwargs["sqlite_autoincrement"] = table.info.get(COUNTS_UP, False)
    for index in table.indexes:
        if where := index.info.get(WHERE):
            index.dialect_kwargs[f"{dialect}_where"] = sa.text(where)
