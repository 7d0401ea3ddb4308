"""The statements about claims; the primary key decides every race."""

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from gemhooks.ledger.clock import Now
from gemhooks.ledger.tables import DONE, NOBODY, RUNNING, handled
from gemhooks.ledger.upsert import insert
from gemhooks.messages import Claim, Claimed

if TYPE_CHECKING:  # it is loaded where its database is used, and nowhere else
    from sqlalchemy.dialects.postgresql import Insert

Key = tuple[str, str]  # queue, key
GRANTED = Claimed(Claim.GRANTED)

_EXPIRED = sa.and_(handled.c.owner != NOBODY, handled.c.lease_until <= Now())
_FREE = sa.and_(
    handled.c.state == RUNNING,
    sa.or_(handled.c.owner == NOBODY, handled.c.lease_until <= Now()),
)


def take(
    connection: sa.Connection, at: Key, *, redelivered: bool, owner: str, lease: float
) -> Claimed:
    """Insert the row or take over one that is free; else say why not."""
    row = _row(at, owner, lease) | {"starts": int(redelivered)}
    granted = connection.execute(_take(connection.dialect.name), row).first()
    if granted is not None:
        return Claimed(Claim.GRANTED, granted.starts, granted.first_at)
    found = _states(connection, [at]).get(at)  # None: it was swept in this very moment
    return Claimed(Claim.DONE if found == DONE else Claim.BUSY)


def take_new(
    connection: sa.Connection, ats: Sequence[Key], *, owner: str, lease: float
) -> list[Claimed | None]:
    """Take those that no start of is counted; of the others, say which are done."""
    # In one order everywhere, lest two processes wait for each other's rows.
    rows = [_row(at, owner, lease) for at in sorted(set(ats))]
    granted = {
        (queue, key) for queue, key in connection.execute(_take_new(connection.dialect.name), rows)
    }
    refused = [at for at in ats if at not in granted]
    states = _states(connection, refused) if refused else {}
    answers: list[Claimed | None] = []
    for at in ats:
        if at in granted:
            granted.remove(at)  # a second wish for one row is a copy
            answers.append(GRANTED)
        else:
            answers.append(Claimed(Claim.DONE) if states.get(at) == DONE else None)
    return answers


def finish(connection: sa.Connection, ats: Sequence[Key]) -> None:
    """Mark them done, whoever holds the claims by now: the work is done."""
    rows = [{"queue": queue, "key": key} for queue, key in sorted(set(ats))]
    connection.execute(_finish(connection.dialect.name), rows)


def free(connection: sa.Connection, ats: Sequence[Key], *, owner: str, ended: bool) -> None:
    """Let anybody claim them; only starts that did not end are counted, and these did."""
    starts = 0 if ended else handled.c.starts - sa.case((handled.c.starts > 0, 1), else_=0)
    for at in sorted(set(ats)):
        statement = sa.update(handled).where(_is(at), _is_held_by(owner))
        connection.execute(statement.values(owner=NOBODY, lease_until=Now(), starts=starts))


def forget_starts(connection: sa.Connection, at: Key, *, owner: str) -> None:
    """Count from nothing again, the present start included."""
    connection.execute(sa.update(handled).where(_is(at), _is_held_by(owner)).values(starts=0))


def is_done(connection: sa.Connection, at: Key) -> bool:
    return connection.scalar(sa.select(handled.c.state).where(_is(at))) == DONE


def renew(connection: sa.Connection, held: Sequence[Key], *, owner: str, lease: float) -> list[Key]:
    """Lengthen the leases of *held*; those of them that others did not take meanwhile."""
    # In one order everywhere, lest two processes wait for each other's rows.
    return [at for at in sorted(held) if _is_renewed(connection, at, owner, lease)]


def _is_renewed(connection: sa.Connection, at: Key, owner: str, lease: float) -> bool:
    statement = sa.update(handled).where(_is(at), _is_held_by(owner))
    return connection.execute(statement.values(lease_until=Now() + lease)).rowcount == 1


def is_known(connection: sa.Connection, at: Key) -> bool:
    return connection.scalar(sa.select(sa.exists().where(_is(at)))) is True


def _row(at: Key, owner: str, lease: float) -> dict[str, Any]:
    return {"queue": at[0], "key": at[1], "owner": owner, "lease": lease}


# Built once: that takes longer than the database takes to run them. What they return makes
# SQLAlchemy send all rows in one statement.
@cache
def _take(dialect: str) -> sa.Executable:
    new = _insert(dialect, starts=sa.bindparam("starts"))
    counted = handled.c.starts + _one_more(new.excluded.starts)
    return _over(new, _FREE, starts=counted).returning(handled.c.starts, handled.c.first_at)


@cache
def _take_new(dialect: str) -> sa.Executable:
    """Claims of others, and starts that count, are for :func:`_take`: at the start, one by one."""
    untouched = sa.and_(_FREE, handled.c.owner == NOBODY, handled.c.starts == 0)
    new = _insert(dialect, starts=0)
    return _over(new, untouched).returning(handled.c.queue, handled.c.key)


def _insert(dialect: str, *, starts: Any) -> "Insert":
    lease = sa.bindparam("lease", type_=sa.Double)
    row = {"state": RUNNING, "lease_until": Now() + lease, "first_at": Now(), "starts": starts}
    named: dict[str, Any] = {name: sa.bindparam(name) for name in ("queue", "key", "owner")}
    return insert(dialect, handled).values(**row, **named)


def _over(new: "Insert", where: sa.ColumnElement[bool], **more: Any) -> "Insert":
    taken = {"owner": new.excluded.owner, "lease_until": new.excluded.lease_until, **more}
    return new.on_conflict_do_update(index_elements=["queue", "key"], set_=taken, where=where)


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
    # So does one that was put back before it began: free() took away what is counted again here.
    put_back = sa.and_(handled.c.owner == NOBODY, handled.c.starts > 0)
    return sa.case((sa.or_(redelivered > 0, _EXPIRED, put_back), 1), else_=0)


def _states(connection: sa.Connection, ats: Sequence[Key]) -> dict[Key, str]:
    wanted = sa.tuple_(handled.c.queue, handled.c.key).in_(ats)
    columns = (handled.c.queue, handled.c.key, handled.c.state)
    return {
        (row.queue, row.key): row.state
        for row in connection.execute(sa.select(*columns).where(wanted))
    }


def _is(at: Key) -> sa.ColumnElement[bool]:
    return sa.and_(handled.c.queue == at[0], handled.c.key == at[1])


def _is_held_by(owner: str) -> sa.ColumnElement[bool]:
    return sa.and_(handled.c.owner == owner, handled.c.state == RUNNING)
