"""INSERT ... ON CONFLICT for either database."""

from typing import cast

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite


def insert(dialect: str, table: sa.Table) -> postgresql.Insert:
    if dialect == "postgresql":
        return postgresql.insert(table)
    # The two classes share the methods we use, but no base that has them.
    return cast("postgresql.Insert", sqlite.insert(table))
