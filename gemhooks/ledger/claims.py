"""The statements about claims; the primary key decides every race."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import sqlalchemy as sa

from gemhooks.ledger.clock import Now
from gemhooks.ledger.tables import DONE, NOBODY, RUNNING, handled
from gemhooks.ledger.upsert import insert
from gemhooks.messages import Claim, Claimed

Key = tuple[str, str]  # queue, key

_EXPIRED = sa.and_(handled.c.owner != NOBODY, handled.c.lease_until <= Now())
_FREE = sa.and_(
    handled.c.state == RUNNING,
    sa.or_(handled.c.owner == NOBODY, handled.c.lease_until <= Now()),
)


@dataclass(frozen=True, slots=True)
class Wish:
    """Somebody wants to handle what lies there."""

    at: Key
    redelivered: bool


def take(
    connection: sa.Connection, wishes: Sequence[Wish], *, owner: str, lease: float
) -> list[Claimed]:
    """For each, insert the row or take over one that is free; else say why not."""
    # In one order everywhere, lest two processes wait for each other's rows.
    rows = [
        {"queue": queue, "key": key, "owner": owner, "lease": lease, "starts": int(redelivered)}
        for (queue, key), redelivered in sorted({w.at: w.redelivered for w in wishes}.items())
    ]
    granted = {
        (queue, key): Claimed(Claim.GRANTED, starts)
        for queue, key, starts in connection.execute(_take(connection.dialect.name), rows)
    }
    refused = [wish.at for wish in wishes if wish.at not in granted]
    reasons = _reasons(connection, refused) if refused else {}
    busy = Claimed(Claim.BUSY)  # a second wish for one row, or it was swept in this very moment
    return [
        granted.pop(wish.at) if wish.at in granted else reasons.get(wish.at, busy)
        for wish in wishes
    ]


def finish(connection: sa.Connection, ats: Sequence[Key]) -> None:
    """Mark them done, whoever holds the claims by now: the work is done."""
    rows = [{"queue": queue, "key": key} for queue, key in sorted(set(ats))]
    connection.execute(_finish(connection.dialect.name), rows)


def free(connection: sa.Connection, at: Key, *, owner: str, ended: bool) -> None:
    """Let anybody claim it; only starts that did not end are counted, and this one did."""
    starts = 0 if ended else handled.c.starts - sa.case((handled.c.starts > 0, 1), else_=0)
    statement = sa.update(handled).where(_is(at), _is_held_by(owner))
    connection.execute(statement.values(owner=NOBODY, lease_until=Now(), starts=starts))


def forget_starts(connection: sa.Connection, at: Key, *, owner: str) -> None:
    """Count from nothing again, the present start included."""
    connection.execute(sa.update(handled).where(_is(at), _is_held_by(owner)).values(starts=0))


def is_done(connection: sa.Connection, at: Key) -> bool:
    return connection.scalar(sa.select(handled.c.state).where(_is(at))) == DONE


def renew(connection: sa.Connection, held: list[Key], *, owner: str, lease: float) -> None:
    """Lengthen the leases of *held*, those that others took meanwhile excepted."""
    # In one order everywhere, lest two processes wait for each other's rows.
    for at in sorted(held):
        statement = sa.update(handled).where(_is(at), _is_held_by(owner))
        connection.execute(statement.values(lease_until=Now() + lease))


def is_known(connection: sa.Connection, at: Key) -> bool:
    return connection.scalar(sa.select(sa.exists().where(_is(at)))) is True


# Built once: that takes longer than the database takes to run them. What they return makes
# SQLAlchemy send all rows in one statement.
@cache
def _take(dialect: str) -> sa.Executable:
    lease = sa.bindparam("lease", type_=sa.Double)
    row = {"state": RUNNING, "lease_until": Now() + lease, "first_at": Now()}
    named: dict[str, Any] = {
        name: sa.bindparam(name) for name in ("queue", "key", "owner", "starts")
    }
    statement = insert(dialect, handled).values(**row, **named)
    new = statement.excluded
    return statement.on_conflict_do_update(
        index_elements=["queue", "key"],
        set_={
            "owner": new.owner,
            "lease_until": new.lease_until,
            "starts": handled.c.starts + _one_more(new.starts),
        },
        where=_FREE,
    ).returning(handled.c.queue, handled.c.key, handled.c.starts)


@cache
def _finish(dialect: str) -> sa.Executable:
    ended: dict[str, Any] = {
        "state": DONE,
        "owner": NOBODY,
        "lease_until": Now(),
        "done_at": Now(),
    }
    named: dict[str, Any] = {name: sa.bindparam(name) for name in ("queue", "key")}
    statement = insert(dialect, handled).values(**ended, **named, starts=0, first_at=Now())
    return statement.on_conflict_do_update(index_elements=["queue", "key"], set_=ended).returning(
        handled.c.key
    )


def _one_more(redelivered: sa.ColumnElement[int]) -> sa.ColumnElement[int]:
    # A lease that ran out belonged to an owner that died over the message. Its copy met the
    # live lease, was sent round through a retry queue, and comes back looking like a first one.
    return sa.case((sa.or_(redelivered > 0, _EXPIRED), 1), else_=0)


def _reasons(connection: sa.Connection, refused: Sequence[Key]) -> dict[Key, Claimed]:
    columns = (handled.c.queue, handled.c.key, handled.c.state, handled.c.starts)
    wanted = sa.tuple_(handled.c.queue, handled.c.key).in_(refused)
    return {
        (row.queue, row.key): Claimed(Claim.DONE if row.state == DONE else Claim.BUSY, row.starts)
        for row in connection.execute(sa.select(*columns).where(wanted))
    }


def _is(at: Key) -> sa.ColumnElement[bool]:
    return sa.and_(handled.c.queue == at[0], handled.c.key == at[1])


def _is_held_by(owner: str) -> sa.ColumnElement[bool]:
    return sa.and_(handled.c.owner == owner, handled.c.state == RUNNING)
