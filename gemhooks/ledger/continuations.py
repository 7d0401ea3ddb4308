"""The one continuation of each interaction: sent, lost or waiting for a person."""

import secrets
from typing import Any

import sqlalchemy as sa

from gemhooks.functions.chains import Begun, Continuation, Place, SendState
from gemhooks.functions.verdicts import SENDS_TO, Verdict
from gemhooks.ledger.clock import Now
from gemhooks.ledger.database import Database
from gemhooks.ledger.tables import continuations
from gemhooks.ledger.texts import readable, storable
from gemhooks.ledger.upsert import insert

_C = continuations.c


class Continuations:
    """The ContinuationLedger of all processes that share a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def begin(self, interaction_id: str, place: Place, *, lease: float, wait: float) -> Begun:
        row = {
            "interaction_id": storable(interaction_id),
            "key": secrets.token_hex(16),  # nobody else can know it: it proves who sent it
            "root_id": storable(place.root_id),
            "turn": place.turn,
            "chain_started_at": Now() if place.started_at is None else place.started_at,
        }
        return self._database.write(lambda connection: _begin(connection, row, lease, wait))

    def sent(self, interaction_id: str, successor_id: str) -> Continuation | None:
        named = {"state": SendState.SENT, "successor_id": storable(successor_id)}
        return self._change(_of(interaction_id), _C.successor_id.is_(None), **named)

    def lost(self, interaction_id: str) -> Continuation | None:
        sending = _C.state == SendState.SENDING
        return self._change(_of(interaction_id), sending, state=SendState.LOST, lost_at=Now())

    def not_sent(self, interaction_id: str, error: str) -> Continuation | None:
        sending = _C.state == SendState.SENDING
        named = {"state": SendState.NOT_SENT, "error": readable(error[:300])}
        return self._change(_of(interaction_id), sending, **named)

    def recognise(self, key: str, successor_id: str) -> Continuation | None:
        named = {"state": SendState.SENT, "successor_id": storable(successor_id)}
        wanted = _C.key == storable(key)
        return self._change(wanted, _C.successor_id.is_(None), **named) or self._first(wanted)

    def leading_to(self, interaction_id: str) -> Continuation | None:
        return self._first(_C.successor_id == storable(interaction_id))

    def of(self, interaction_id: str) -> Continuation | None:
        return self._first(_of(interaction_id))

    def decide(
        self, number: int, verdict: Verdict, successor_id: str | None = None
    ) -> Continuation | None:
        """Do as a person says of one that is UNKNOWN; None if it is too late."""
        named = {} if successor_id is None else {"successor_id": storable(successor_id)}
        allowed = _C.state.in_((SendState.UNKNOWN, SENDS_TO[verdict]))
        return self._change(
            _C.id == number, allowed, _C.successor_id.is_(None), state=SENDS_TO[verdict], **named
        )

    def parked(self) -> int:
        """How many wait for a person."""
        unknown = sa.select(sa.func.count()).where(_C.state == SendState.UNKNOWN)
        return self._database.read(lambda connection: connection.scalar(unknown) or 0)

    def get(self, number: int) -> Continuation | None:
        """The continuation that people know by *number*."""
        return self._first(_C.id == number)

    def list(self, *states: SendState, limit: int = 100) -> tuple[Continuation, ...]:
        """The newest continuations, those in one of *states* where some are given."""
        wanted = sa.select(continuations).order_by(_C.id.desc()).limit(limit)
        return self._select(wanted.where(_C.state.in_(states)) if states else wanted)

    def _first(self, wanted: sa.ColumnElement[bool]) -> Continuation | None:
        rows = self._select(sa.select(continuations).where(wanted).order_by(_C.id).limit(1))
        return rows[0] if rows else None

    def _select(self, wanted: sa.Select[Any]) -> tuple[Continuation, ...]:
        return self._database.read(
            lambda connection: tuple(_continuation(row) for row in connection.execute(wanted))
        )

    def _change(self, *wanted: sa.ColumnElement[bool], **values: Any) -> Continuation | None:
        """The one row after its change; None where none was as *wanted*."""
        statement = sa.update(continuations).where(*wanted).values(**values, updated_at=Now())
        rows = self._database.write(
            lambda connection: connection.execute(statement.returning(*_C)).all()
        )
        return _continuation(rows[0]) if rows else None


def _of(interaction_id: str) -> sa.ColumnElement[bool]:
    return _C.interaction_id == storable(interaction_id)


def _begin(connection: sa.Connection, row: dict[str, Any], lease: float, wait: float) -> Begun:
    """Insert the row or take over one that was surely not sent; else say how it stands."""
    sending = {"state": SendState.SENDING, "lease_until": Now() + lease, "updated_at": Now()}
    statement = insert(connection.dialect.name, continuations).values(
        **row, **sending, error="", created_at=Now()
    )
    statement = statement.on_conflict_do_update(
        index_elements=["interaction_id"], set_=sending, where=_C.state == SendState.NOT_SENT
    )
    taken = connection.execute(statement.returning(*_C)).one_or_none()
    if taken is not None:
        return Begun(_continuation(taken), granted=True)
    return _standing(connection, row["interaction_id"], wait)


def _standing(connection: sa.Connection, interaction_id: str, wait: float) -> Begun:
    mine = _C.interaction_id == interaction_id
    for state, due, values in _turns(wait):
        connection.execute(
            sa.update(continuations).where(mine, _C.state == state, due).values(values)
        )
    ends = sa.case((_C.state == SendState.SENDING, _C.lease_until), else_=_C.lost_at + wait)
    found = connection.execute(sa.select(*_C, (ends - Now()).label("left")).where(mine)).one()
    named = dict(found._mapping)  # noqa: SLF001 - its public name, in SQLAlchemy's words
    left = named.pop("left")
    standing = _read(named)
    busy = standing.state in (SendState.SENDING, SendState.LOST)
    return Begun(standing, busy=max(0.1, left or 0.0) if busy else 0.0)


def _turns(
    wait: float,
) -> tuple[tuple[SendState, sa.ColumnElement[bool], dict[str, Any]], ...]:
    """What time alone makes of a continuation: who sent it died; its event never came."""
    died = {"state": SendState.LOST, "lost_at": _C.lease_until, "updated_at": Now()}
    unknown = {"state": SendState.UNKNOWN, "updated_at": Now()}
    return (
        (SendState.SENDING, _C.lease_until <= Now(), died),
        (SendState.LOST, _C.lost_at + wait <= Now(), unknown),
    )


def _continuation(row: sa.Row[Any]) -> Continuation:
    return _read(dict(row._mapping))  # noqa: SLF001 - its public name, in SQLAlchemy's words


def _read(row: dict[str, Any]) -> Continuation:
    row["state"] = SendState(row["state"])
    return Continuation(**row)
