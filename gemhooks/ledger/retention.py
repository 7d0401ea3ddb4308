"""Forgets what nobody will deliver again, in small steps."""

from collections.abc import Iterator

import sqlalchemy as sa

from gemhooks.ledger.clock import Now
from gemhooks.ledger.tables import RUNNING, calls, continuations, handled, jobs

KEPT = 72 * 3600.0  # seconds; Gemini sends a webhook again for 24 hours, people replay later
JOBS_KEPT = 90 * 86400.0  # seconds; Gemini itself keeps an interaction for 55 days at most


def sweep(connection: sa.Connection, *, limit: int, kept: float = KEPT) -> int:
    """Delete at most *limit* old rows and return how many they were."""
    deleted = 0
    for table, old in _old(kept):
        deleted += _delete(connection, table, old, limit - deleted)
    return deleted


def _old(kept: float) -> Iterator[tuple[sa.Table, sa.ColumnElement[bool]]]:
    yield handled, handled.c.done_at < Now() - kept
    yield handled, sa.and_(handled.c.state == RUNNING, handled.c.lease_until < Now() - kept)
    yield jobs, jobs.c.ended_at < Now() - JOBS_KEPT
    never_ended = jobs.c.ended_at.is_(None)
    yield jobs, sa.and_(never_ended, jobs.c.updated_at < Now() - JOBS_KEPT)
    # Kept as long as anybody could still ask for them: they are what keeps effects from repeating.
    yield calls, sa.and_(calls.c.state == "done", calls.c.ended_at < Now() - JOBS_KEPT)
    settled = continuations.c.state.in_(("sent", "given_up"))
    yield continuations, sa.and_(settled, continuations.c.updated_at < Now() - JOBS_KEPT)


def _delete(
    connection: sa.Connection, table: sa.Table, old: sa.ColumnElement[bool], limit: int
) -> int:
    if limit < 1:
        return 0
    key = list(table.primary_key.columns)
    # Two processes that sweep at once share the rows; SQLite has one writer anyway.
    chosen = sa.select(*key).where(old).limit(limit).with_for_update(skip_locked=True)
    here = sa.tuple_(*key)
    return connection.execute(sa.delete(table).where(here.in_(chosen))).rowcount
