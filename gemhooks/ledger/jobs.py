"""What runs at Gemini: started by us or seen in an event."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from gemhooks.heads import bare_id
from gemhooks.ledger.clock import Now
from gemhooks.ledger.database import Database
from gemhooks.ledger.tables import jobs
from gemhooks.ledger.texts import readable, storable, storable_text
from gemhooks.ledger.upsert import insert

INTERACTION = "interaction"
BATCH = "batch"
VIDEO = "video"
KINDS = (INTERACTION, BATCH, VIDEO)

STARTED = "started"
REQUIRES_ACTION = "requires_action"
TERMINAL = frozenset(
    (
        "completed",
        "succeeded",
        "generated",
        "failed",
        "cancelled",
        "expired",
        "incomplete",
        "budget_exceeded",
        "continued",  # its calls were answered: another interaction goes on
    )
)


@dataclass(frozen=True, slots=True)
class Job:
    """One row; times are Unix seconds."""

    kind: str
    id: str
    state: str
    event_type: str
    source: str
    error_code: str | None
    error_message: str | None
    user_metadata: dict[str, Any] | None
    created_at: float
    updated_at: float
    expected_at: float | None
    ended_at: float | None
    ours: bool
    misses: int = 0  # how often in a row Gemini did not know it
    trouble: str | None = None  # stuck or vanished, by the reconciler's word
    reported: str | None = None  # the event type that the reconciler published
    request: dict[str, Any] | None = None


class Jobs:
    """The jobs that are known; a job's state only ever moves on.

    An id is one job with and without its prefix: ``batches/x`` and ``x`` are the same batch.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def record(
        self,
        kind: str,
        id: str,  # noqa: A002 - Gemini's word
        state: str,
        *,
        event_type: str = "",
        source: str = "",
        error_code: str | None = None,
        error_message: str | None = None,
        user_metadata: Mapping[str, Any] | None = None,
        expected_at: float | None = None,
        ours: bool = False,
        request: Mapping[str, Any] | None = None,
    ) -> Job:
        """Write what was learned and return the job as it is now.

        Events come in any order: an end stays, whatever is told later, and "started" replaces
        nothing. What is not given keeps its value, and ours stays ours.
        """
        row = {
            "kind": kind,
            "key": _key(id),
            "id": storable_text(id),
            "state": readable(state),
            "event_type": readable(event_type),
            "source": source,
            "error_code": error_code and readable(error_code),
            "error_message": error_message and readable(error_message),
            "user_metadata": None if user_metadata is None else dict(user_metadata),
            "expected_at": expected_at,
            "ours": ours,
            "request": None if request is None else dict(request),
        }
        return self._database.write(lambda connection: _upsert(connection, row))

    def get(self, kind: str, id: str) -> Job | None:  # noqa: A002
        rows = self._select(sa.select(*COLUMNS).where(is_job(kind, id)))
        return rows[0] if rows else None

    def list(
        self,
        state: str | None = None,
        kind: str | None = None,
        *,
        troubled: bool = False,
        limit: int = 100,
    ) -> tuple[Job, ...]:
        """Return the jobs that changed last, newest first; *troubled*: only stuck or vanished."""
        wanted = sa.select(*COLUMNS).order_by(jobs.c.updated_at.desc(), jobs.c.id).limit(limit)
        if state is not None:
            wanted = wanted.where(jobs.c.state == state)
        if kind is not None:
            wanted = wanted.where(jobs.c.kind == kind)
        if troubled:
            wanted = wanted.where(jobs.c.trouble.is_not(None))
        return self._select(wanted)

    def _select(self, wanted: sa.Select[Any]) -> tuple[Job, ...]:
        return self._database.read(
            lambda connection: tuple(job_of(row) for row in connection.execute(wanted))
        )


def _key(id: str) -> str:  # noqa: A002
    return storable(bare_id(id))


def is_job(kind: str, id: str) -> sa.ColumnElement[bool]:  # noqa: A002
    return sa.and_(jobs.c.kind == kind, jobs.c.key == _key(id))


def _upsert(connection: sa.Connection, row: dict[str, Any]) -> Job:
    ends = row["state"] in TERMINAL
    first = {"created_at": Now(), "updated_at": Now(), "ended_at": Now() if ends else None}
    statement = insert(connection.dialect.name, jobs).values(**row, **first)
    new = statement.excluded
    changes: dict[str, sa.ColumnElement[Any]] = {}
    changes |= {name: sa.func.coalesce(new[name], jobs.c[name]) for name in _LEARNED}
    moves_on = _moves_on(row["state"])
    changes |= {name: sa.case((moves_on, new[name]), else_=jobs.c[name]) for name in _OF_THE_STATE}
    changes["ours"] = sa.or_(jobs.c.ours, new.ours)
    # The longer name is the one that Google's client takes.
    longer = sa.func.length(new.id) > sa.func.length(jobs.c.id)
    changes["id"] = sa.case((longer, new.id), else_=jobs.c.id)
    if ends:
        changes["trouble"] = sa.null()
    statement = statement.on_conflict_do_update(index_elements=["kind", "key"], set_=changes)
    return job_of(connection.execute(statement.returning(*COLUMNS)).one())


_LEARNED = ("user_metadata", "expected_at", "request")
_OF_THE_STATE = (
    "state",
    "event_type",
    "source",
    "error_code",
    "error_message",
    "updated_at",
    "ended_at",
)


def _moves_on(state: str) -> sa.ColumnElement[bool]:
    """Whether *state* may follow the one that is stored."""
    if state == STARTED:
        return jobs.c.state == STARTED
    return jobs.c.state.not_in(sorted(TERMINAL))


COLUMNS = tuple(jobs.c[name] for name in Job.__slots__)


def job_of(row: sa.Row[Any]) -> Job:
    return Job(**row._mapping)  # noqa: SLF001 - its public name, in SQLAlchemy's words
