"""INSERT ... ON CONFLICT for whichever database is connected."""

from typing import cast

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite


def insert(connection: sa.Connection, table: sa.Table) -> postgresql.Insert:
    if connection.dialect.name == "postgresql":
        return postgresql.insert(table)
    # The two classes share the methods we use, but no base that has them.
    return cast("postgresql.Insert", sqlite.insert(table))
