"""The index of fetched results: where each was stored."""

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from gemhooks.ledger.clock import Now
from gemhooks.ledger.database import Database
from gemhooks.ledger.tables import results
from gemhooks.ledger.texts import storable
from gemhooks.ledger.upsert import insert


@dataclass(frozen=True, slots=True)
class Result:
    """One stored file of a job; stored_at is in Unix seconds."""

    kind: str
    id: str
    url: str
    bytes: int
    stored_at: float


class Results:
    """Where results are; a job may have several."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def record(self, kind: str, id: str, url: str, size: int) -> None:  # noqa: A002
        """Note a stored file; stored again, it has its new size."""
        row = {"kind": kind, "id": storable(id), "url": url, "bytes": size}
        self._database.write(lambda connection: _upsert(connection, row))

    def get(self, kind: str, id: str) -> tuple[Result, ...]:  # noqa: A002
        """Return the files of one job, by URL."""
        of_job = sa.and_(results.c.kind == kind, results.c.id == storable(id))
        return self._select(sa.select(results).where(of_job).order_by(results.c.url))

    def list(self, kind: str | None = None, *, limit: int = 100) -> tuple[Result, ...]:
        """Return what was stored last, newest first."""
        newest = (results.c.stored_at.desc(), results.c.id, results.c.url)
        wanted = sa.select(results).order_by(*newest).limit(limit)
        return self._select(wanted if kind is None else wanted.where(results.c.kind == kind))

    def _select(self, wanted: sa.Select[Any]) -> tuple[Result, ...]:
        return self._database.read(
            lambda connection: tuple(
                Result(**row._mapping)  # noqa: SLF001 - its public name, in SQLAlchemy's words
                for row in connection.execute(wanted)
            )
        )


def _upsert(connection: sa.Connection, row: dict[str, Any]) -> None:
    statement = insert(connection.dialect.name, results).values(**row, stored_at=Now())
    changes = {"bytes": statement.excluded.bytes, "stored_at": Now()}
    connection.execute(
        statement.on_conflict_do_update(index_elements=["kind", "id", "url"], set_=changes)
    )
