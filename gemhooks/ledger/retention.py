"""Forgets what nobody will deliver again, in small steps."""

import sqlalchemy as sa

from gemhooks.ledger.clock import Now
from gemhooks.ledger.tables import RUNNING, handled

KEPT = 72 * 3600.0  # seconds; Gemini sends a webhook again for 24 hours, people replay later


def sweep(connection: sa.Connection, *, limit: int, kept: float = KEPT) -> int:
    """Delete at most *limit* old rows and return how many they were."""
    done = _delete(connection, handled.c.done_at < Now() - kept, limit)
    abandoned = sa.and_(handled.c.state == RUNNING, handled.c.lease_until < Now() - kept)
    return done + _delete(connection, abandoned, limit - done)


def _delete(connection: sa.Connection, old: sa.ColumnElement[bool], limit: int) -> int:
    if limit < 1:
        return 0
    chosen = sa.select(handled.c.queue, handled.c.key).where(old).limit(limit)
    # Two processes that sweep at once share the rows; SQLite has one writer anyway.
    chosen = chosen.with_for_update(skip_locked=True)
    here = sa.tuple_(handled.c.queue, handled.c.key)
    return connection.execute(sa.delete(handled).where(here.in_(chosen))).rowcount
