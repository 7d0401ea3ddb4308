"""Which jobs are to be looked up next, and what came of it."""

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from gemhooks.ledger.clock import Now
from gemhooks.ledger.database import Database
from gemhooks.ledger.jobs import COLUMNS, REQUIRES_ACTION, Job, is_job, job_of
from gemhooks.ledger.tables import jobs

STUCK = "stuck"  # it should have ended long ago
VANISHED = "vanished"  # Gemini does not know it (any more)
MOST_MISSES = 5  # 404s in a row; a fresh id may be unreadable for a while
LONGEST_PAUSE = 6 * 3600.0  # seconds between two looks at one job

_IS_OPEN = jobs.c.ended_at.is_(None)
_AGE = Now() - jobs.c.created_at


class Lookups:
    """The reconciler's part of the jobs; several reconcilers share the work."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def plan(self, expected: Mapping[str, float]) -> None:
        """Set a time for each open job that has none: *expected* seconds by kind after it began."""
        patience = sa.case(expected, value=jobs.c.kind, else_=max(expected.values()))
        when = sa.func.coalesce(jobs.c.expected_at, jobs.c.created_at + patience)
        unplanned = sa.and_(_IS_OPEN, jobs.c.look_at.is_(None))
        self._write(sa.update(jobs).where(unplanned).values(look_at=when))

    def take(self, *, shortest: float, jitter: float = 1.0) -> Job | None:
        """Return the job whose look is due the longest, None where no look is.

        Its next look is set at once, a quarter of its age from now and at least *shortest*
        seconds: nobody else takes it meanwhile, and looks get rarer as a job gets older.
        """
        # What waits for somebody else's functions can wait for ever.
        is_someones = sa.or_(jobs.c.state != REQUIRES_ACTION, jobs.c.ours)
        due = sa.and_(_IS_OPEN, jobs.c.look_at <= Now(), is_someones)
        first = sa.select(jobs.c.kind, jobs.c.key).where(due).order_by(jobs.c.look_at).limit(1)
        # A CTE, since PostgreSQL may run a plain subquery anew for each row and take them all.
        chosen = first.with_for_update(skip_locked=True).cte("chosen")
        pause = _at_most(_at_least(_AGE / 4, shortest), LONGEST_PAUSE) * jitter
        here = sa.tuple_(jobs.c.kind, jobs.c.key).in_(sa.select(chosen))
        taken = sa.update(jobs).where(here, due).values(look_at=Now() + pause)
        return self._one(taken)

    def seen(self, job: Job, *, stuck_after: float | None) -> Job | None:
        """Gemini knows it; where it should have ended *stuck_after* seconds ago, it is stuck."""
        since = sa.func.coalesce(jobs.c.expected_at, jobs.c.created_at)
        is_late = sa.false() if stuck_after is None else Now() - since > stuck_after
        is_stuck = sa.and_(_IS_OPEN, is_late)
        return self._change(job, misses=0, trouble=sa.case((is_stuck, STUCK), else_=None))

    def missed(self, job: Job, *, for_good: bool = False) -> Job | None:
        """Gemini does not know it; said often enough or *for_good*, it has vanished."""
        misses = jobs.c.misses + 1
        gone = sa.and_(_IS_OPEN, sa.or_(misses >= MOST_MISSES, sa.literal(for_good)))
        return self._change(
            job, misses=misses, trouble=sa.case((gone, VANISHED), else_=jobs.c.trouble)
        )

    def reported(self, job: Job, event_type: str) -> None:
        """An event of that type was published in Gemini's place: once is enough."""
        self._change(job, reported=event_type)

    def again(self, job: Job, *, after: float) -> None:
        """Let it be looked up in *after* seconds, whatever was planned."""
        self._change(job, look_at=Now() + after)

    def tally(self) -> dict[tuple[str, str], int]:
        """Count the open jobs by kind and condition: open, and among them stuck and vanished."""
        condition = sa.func.coalesce(jobs.c.trouble, "")
        wanted = sa.select(jobs.c.kind, condition, sa.func.count()).where(_IS_OPEN)
        wanted = wanted.group_by(jobs.c.kind, condition)
        rows = self._database.read(lambda connection: connection.execute(wanted).all())
        counted: dict[tuple[str, str], int] = {}
        for kind, trouble, count in rows:
            for each in {"open", trouble or "open"}:
                counted[kind, each] = counted.get((kind, each), 0) + count
        return counted

    def _change(self, job: Job, **values: Any) -> Job | None:
        return self._one(sa.update(jobs).where(is_job(job.kind, job.id)).values(**values))

    def _one(self, statement: sa.Update) -> Job | None:
        """Run *statement* and return the row as it is now, None where there was none."""
        returning = statement.returning(*COLUMNS)
        row = self._database.write(lambda connection: connection.execute(returning).one_or_none())
        return None if row is None else job_of(row)

    def _write(self, statement: sa.Update) -> None:
        self._database.write(lambda connection: connection.execute(statement))


def _at_least(value: sa.ColumnElement[float], least: float) -> sa.ColumnElement[float]:
    return sa.case((value < least, sa.literal(least)), else_=value)


def _at_most(value: sa.ColumnElement[float], most: float) -> sa.ColumnElement[float]:
    return sa.case((value > most, sa.literal(most)), else_=value)
