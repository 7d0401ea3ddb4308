"""INSERT ... ON CONFLICT for either database."""

from typing import TYPE_CHECKING, cast

import sqlalchemy as sa

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql


def insert(dialect: str, table: sa.Table) -> "postgresql.Insert":
    # Each dialect is loaded where its database is used, and nowhere else.
    if dialect == "postgresql":
        from sqlalchemy.dialects import postgresql  # noqa: PLC0415

        return postgresql.insert(table)
    from sqlalchemy.dialects import sqlite  # noqa: PLC0415

    # The two classes share the methods we use, but no base that has them.
    return cast("postgresql.Insert", sqlite.insert(table))
