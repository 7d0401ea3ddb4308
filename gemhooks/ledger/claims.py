"""The statements about claims; the primary key decides every race."""

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


def take(
    connection: sa.Connection, at: Key, *, owner: str, lease: float, redelivered: bool
) -> Claimed:
    """Insert the row, or take over one that is free; else say why not."""
    statement = insert(connection, handled).values(**_new(at, owner, lease, starts=redelivered))
    statement = statement.on_conflict_do_update(
        index_elements=["queue", "key"],
        set_={"owner": owner, "lease_until": Now() + lease, "starts": _starts(redelivered)},
        where=_FREE,
    )
    starts = connection.scalar(statement.returning(handled.c.starts))
    if starts is not None:
        return Claimed(Claim.GRANTED, starts)
    return _refusal(connection, at)


def finish(connection: sa.Connection, at: Key) -> None:
    """Mark it done, whoever holds the claim by now: the work is done."""
    ended = {"state": DONE, "owner": NOBODY, "lease_until": Now(), "done_at": Now()}
    row = _new(at, NOBODY, 0.0, starts=False) | ended
    statement = insert(connection, handled).values(**row)
    connection.execute(statement.on_conflict_do_update(index_elements=["queue", "key"], set_=ended))


def free(connection: sa.Connection, at: Key, *, owner: str, ended: bool) -> None:
    """Let anybody claim it; only starts that did not end are counted, and this one did."""
    starts = 0 if ended else handled.c.starts - sa.case((handled.c.starts > 0, 1), else_=0)
    statement = sa.update(handled).where(_is(at), _is_held_by(owner))
    connection.execute(statement.values(owner=NOBODY, lease_until=Now(), starts=starts))


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


def _new(at: Key, owner: str, lease: float, *, starts: bool) -> dict[str, Any]:
    return {
        "queue": at[0],
        "key": at[1],
        "state": RUNNING,
        "owner": owner,
        "lease_until": Now() + lease,
        "starts": int(starts),
        "first_at": Now(),
    }


def _starts(redelivered: bool) -> sa.ColumnElement[int]:  # noqa: FBT001
    if redelivered:
        return handled.c.starts + 1
    # A lease that ran out belonged to an owner that died over the message. Its copy met the
    # live lease, was sent round through a retry queue, and comes back looking like a first one.
    return handled.c.starts + sa.case((_EXPIRED, 1), else_=0)


def _refusal(connection: sa.Connection, at: Key) -> Claimed:
    row = connection.execute(
        sa.select(handled.c.state, handled.c.starts).where(_is(at))
    ).one_or_none()
    if row is None:  # swept in this very moment
        return Claimed(Claim.BUSY)
    return Claimed(Claim.DONE if row.state == DONE else Claim.BUSY, row.starts)


def _is(at: Key) -> sa.ColumnElement[bool]:
    return sa.and_(handled.c.queue == at[0], handled.c.key == at[1])


def _is_held_by(owner: str) -> sa.ColumnElement[bool]:
    return sa.and_(handled.c.owner == owner, handled.c.state == RUNNING)
