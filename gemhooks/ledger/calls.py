"""The function calls of every interaction; the unique constraint decides every race."""

import json
from typing import Any

import sqlalchemy as sa

from gemhooks.functions.calls import Call
from gemhooks.functions.records import PARKED, CallClaim, CallRecord, CallState, Terms
from gemhooks.functions.results import FINE, Answer, Result
from gemhooks.functions.verdicts import CALLS_FROM, Verdict, answer_of
from gemhooks.ledger.clock import Now
from gemhooks.ledger.database import Database
from gemhooks.ledger.tables import calls
from gemhooks.ledger.texts import readable, storable
from gemhooks.ledger.upsert import insert

LONGEST_ARGUMENTS = 64 * 1024  # characters of JSON that are kept for people
LONGEST_NAME = 255
SOONEST = 1.0  # seconds until it is worth asking again for a call that somebody runs
_CALL = ["interaction_id", "call_id"]
_EXPIRED = sa.and_(calls.c.state == CallState.RUNNING, calls.c.lease_until <= Now())


class Calls:
    """The CallLedger of all processes that share a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def claim(self, interaction_id: str, call: Call, terms: Terms) -> CallClaim:
        row = _new(interaction_id, call)
        return self._database.write(lambda connection: _take(connection, row, terms))

    def record(
        self, interaction_id: str, call: Call, result: Result, *, result_url: str = ""
    ) -> CallRecord:
        row = _new(interaction_id, call) | _ended(result, result_url)
        return self._database.write(lambda connection: _finish(connection, row))

    def decide(self, number: int, verdict: Verdict, said: Any = None) -> CallRecord | None:
        """Do as a person says, *said* being what the model is told; None if it is too late."""
        answer = answer_of(verdict, said)
        values = {"state": CallState.READY} if answer is None else _ended_by(answer)
        allowed = sa.and_(calls.c.id == number, calls.c.state.in_(CALLS_FROM[verdict]))
        statement = sa.update(calls).where(allowed).values(values).returning(*calls.c)
        row = self._database.write(lambda connection: connection.execute(statement).one_or_none())
        return None if row is None else _record(row)

    def parked(self) -> dict[str, int]:
        """How many calls wait for a person, by state."""
        count = sa.select(calls.c.state, sa.func.count()).where(calls.c.state.in_(PARKED))
        found = self._database.read(
            lambda connection: connection.execute(count.group_by(calls.c.state)).all()
        )
        return {state.value: 0 for state in PARKED} | {row[0]: row[1] for row in found}

    def get(self, number: int) -> CallRecord | None:
        """The call that people know by *number*."""
        rows = self._select(sa.select(calls).where(calls.c.id == number))
        return rows[0] if rows else None

    def of(self, interaction_id: str) -> tuple[CallRecord, ...]:
        """The calls of one interaction, in the order in which they were first seen."""
        wanted = sa.select(calls).where(calls.c.interaction_id == storable(interaction_id))
        return self._select(wanted.order_by(calls.c.id))

    def list(self, *states: CallState, limit: int = 100) -> tuple[CallRecord, ...]:
        """The newest calls, those in one of *states* where some are given."""
        wanted = sa.select(calls).order_by(calls.c.id.desc()).limit(limit)
        return self._select(wanted.where(calls.c.state.in_(states)) if states else wanted)

    def _select(self, wanted: sa.Select[Any]) -> tuple[CallRecord, ...]:
        return self._database.read(
            lambda connection: tuple(_record(row) for row in connection.execute(wanted))
        )


def _new(interaction_id: str, call: Call) -> dict[str, Any]:
    return {
        "interaction_id": storable(interaction_id),
        "call_id": storable(call.id),
        "function": readable(call.name[:LONGEST_NAME]),
        "arguments": _shown(call.arguments),
        "starts": 0,
        "lease_until": 0.0,
        "outcome": "",
        "is_error": False,
        "result_url": "",
        "created_at": Now(),
    }


def _shown(arguments: Any) -> str:
    try:
        return json.dumps(arguments)[:LONGEST_ARGUMENTS]
    except (TypeError, ValueError, RecursionError):
        return "(not JSON)"


def _ended(result: Result, result_url: str) -> dict[str, Any]:
    return _ended_by(Answer(result.result, result.outcome)) | {"result_url": result_url}


def _ended_by(answer: Answer) -> dict[str, Any]:
    return {
        "state": CallState.DONE,
        "outcome": answer.outcome,
        "is_error": answer.outcome not in FINE,
        "result": answer.result,
        "ended_at": Now(),
    }


def _take(connection: sa.Connection, row: dict[str, Any], terms: Terms) -> CallClaim:
    """One statement decides; the others only say what it met."""
    running = {
        "state": CallState.RUNNING,
        "lease_until": Now() + terms.lease,
        "started_at": Now(),
    }
    first = {"state": CallState.APPROVAL} if terms.approval else running | {"starts": 1}
    statement = insert(connection.dialect.name, calls).values(**row | first)
    free = calls.c.state == CallState.READY
    statement = statement.on_conflict_do_update(
        index_elements=_CALL,
        set_=running | {"starts": calls.c.starts + 1},
        where=sa.or_(free, _EXPIRED) if terms.again else free,
    )
    taken = connection.execute(statement.returning(*calls.c)).one_or_none()
    if taken is None:
        return _met(connection, row, again=terms.again)
    record = _record(taken)
    return CallClaim(record, granted=record.state is CallState.RUNNING)


def _met(connection: sa.Connection, row: dict[str, Any], *, again: bool) -> CallClaim:
    if not again:
        unknown = sa.update(calls).where(_is(row), _EXPIRED).values(state=CallState.UNKNOWN)
        connection.execute(unknown)
    left = (calls.c.lease_until - Now()).label("left")
    age = (Now() - calls.c.started_at).label("age")
    found = connection.execute(sa.select(*calls.c, left, age).where(_is(row))).one()
    named = dict(found._mapping)  # noqa: SLF001 - its public name, in SQLAlchemy's words
    ends, runs = named.pop("left"), named.pop("age")
    record = _of(named)
    is_busy = record.state in (CallState.RUNNING, CallState.READY)
    return CallClaim(record, busy=_worth_waiting(ends, runs or 0.0) if is_busy else 0.0)


def _worth_waiting(left: float, age: float) -> float:
    """Soon at first, for most calls are short; then ever less often, to the end of the claim."""
    return max(0.1, min(left, max(SOONEST, 3 * age)))


def _finish(connection: sa.Connection, row: dict[str, Any]) -> CallRecord:
    statement = insert(connection.dialect.name, calls).values(**row)
    named = ("state", "outcome", "is_error", "result", "result_url", "ended_at")
    statement = statement.on_conflict_do_update(
        index_elements=_CALL,
        set_={name: statement.excluded[name] for name in named},
        where=calls.c.state != CallState.DONE,
    )
    written = connection.execute(statement.returning(*calls.c)).one_or_none()
    if written is None:  # somebody was first, and the model may have read it
        written = connection.execute(sa.select(calls).where(_is(row))).one()
    return _record(written)


def _is(row: dict[str, Any]) -> sa.ColumnElement[bool]:
    return sa.and_(*(calls.c[name] == row[name] for name in _CALL))


def _record(row: sa.Row[Any]) -> CallRecord:
    return _of(dict(row._mapping))  # noqa: SLF001 - its public name, in SQLAlchemy's words


def _of(row: dict[str, Any]) -> CallRecord:
    row["state"] = CallState(row["state"])
    return CallRecord(**row)
