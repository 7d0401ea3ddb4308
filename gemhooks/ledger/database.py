"""A database, whichever it is: short pieces of work run on its connections."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar

import sqlalchemy as sa

from gemhooks.ledger import urls

T = TypeVar("T")


class Database(Protocol):
    """Every method raises LedgerUnavailable while the database is away."""

    def read(self, work: Callable[[sa.Connection], T]) -> T:
        """Run *work*, which only reads."""
        ...

    def write(self, work: Callable[[sa.Connection], T]) -> T:
        """Run *work* and return once it is durable; it may run twice, the first undone."""
        ...

    def transaction(self) -> AbstractContextManager[sa.Connection]:
        """Open a transaction that writes, for migrations."""
        ...

    def close(self) -> None: ...


def connect(url: str) -> Database:
    """Open the database of *url*; Misconfigured, LedgerUnavailable where it can't be used."""
    parsed = urls.parse(url)
    # Imported when asked for: the driver of the other may not be installed.
    if parsed.get_backend_name() == "sqlite":
        from gemhooks.ledger.sqlite import SqliteDatabase  # noqa: PLC0415

        return SqliteDatabase(parsed)
    from gemhooks.ledger.postgresql import PostgresDatabase  # noqa: PLC0415

    return PostgresDatabase(parsed)
