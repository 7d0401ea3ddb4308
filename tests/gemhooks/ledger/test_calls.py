"""A call is granted once, whoever asks and whoever dies."""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import sqlalchemy as sa

from gemhooks.functions import Call, Outcome, Result
from gemhooks.functions.chains import Place
from gemhooks.functions.records import CallClaim, CallState, Terms
from gemhooks.ledger import Ledgers
from gemhooks.ledger.tables import calls, continuations

CALL = Call("c1", "charge", {"order": "o1", "cents": 100})
ONCE = Terms(lease=30.0, again=False, approval=False)
AGAIN = Terms(lease=30.0, again=True, approval=False)
APPROVED = Terms(lease=30.0, again=False, approval=True)


def short(terms: Terms) -> Terms:
    return Terms(lease=0.05, again=terms.again, approval=terms.approval)


def result(value: Any = "charged", outcome: Outcome = Outcome.OK) -> Result:
    return Result("c1", "charge", value, outcome is not Outcome.OK, outcome)


def claimed_until(ledgers: Ledgers, terms: Terms, wanted: CallState) -> CallClaim:
    """What a claim is answered once a lease that is about to end did end."""
    deadline = time.monotonic() + 60
    while True:
        claim = ledgers.calls.claim("v1_a", CALL, terms)
        if claim.record.state is wanted and (claim.granted or wanted is not CallState.RUNNING):
            return claim
        assert time.monotonic() < deadline


def test_of_two_that_ask_one_gets_the_call(ledgers: Ledgers, others: Ledgers) -> None:
    assert ledgers.calls.claim("v1_a", CALL, ONCE).granted

    second = others.calls.claim("v1_a", CALL, ONCE)

    assert not second.granted
    assert second.record.state is CallState.RUNNING
    assert 0 < second.busy <= 30


def test_of_many_that_ask_at_once_one_gets_the_call(ledgers: Ledgers, others: Ledgers) -> None:
    both = [ledgers, others] * 8
    with ThreadPoolExecutor(16) as pool:
        claims = list(pool.map(lambda each: each.calls.claim("v1_a", CALL, AGAIN), both))

    assert sum(claim.granted for claim in claims) == 1


def test_the_same_call_id_in_another_interaction_is_another_call(ledgers: Ledgers) -> None:
    assert ledgers.calls.claim("v1_a", CALL, ONCE).granted
    assert ledgers.calls.claim("v1_b", CALL, ONCE).granted


def test_a_recorded_call_is_given_with_its_result_and_to_nobody(
    ledgers: Ledgers, others: Ledgers
) -> None:
    ledgers.calls.claim("v1_a", CALL, ONCE)
    ledgers.calls.record("v1_a", CALL, result({"text": "ü\0\ud800"[:2], "n": [1, None]}))

    claim = others.calls.claim("v1_a", CALL, AGAIN)

    assert not claim.granted
    assert claim.busy == 0
    assert claim.record.answer_to(CALL) == result({"text": "ü\0", "n": [1, None]})


def test_the_first_result_stays(ledgers: Ledgers) -> None:
    ledgers.calls.record("v1_a", CALL, result("first"))

    late = ledgers.calls.record("v1_a", CALL, result("second", Outcome.FAILED))

    assert (late.result, late.outcome, late.is_error) == ("first", "ok", False)


def test_who_dies_over_a_once_call_leaves_it_unknown(ledgers: Ledgers, others: Ledgers) -> None:
    ledgers.calls.claim("v1_a", CALL, short(ONCE))

    claim = claimed_until(others, ONCE, CallState.UNKNOWN)

    assert not claim.granted
    assert claim.record.starts == 1
    assert not others.calls.claim("v1_a", CALL, ONCE).granted


def test_who_dies_over_an_idempotent_call_leaves_it_to_others(
    ledgers: Ledgers, others: Ledgers
) -> None:
    ledgers.calls.claim("v1_a", CALL, short(AGAIN))

    claim = claimed_until(others, AGAIN, CallState.RUNNING)

    assert claim.granted
    assert claim.record.starts == 2


def test_a_result_that_comes_late_settles_an_unknown_call(
    ledgers: Ledgers, others: Ledgers
) -> None:
    ledgers.calls.claim("v1_a", CALL, short(ONCE))
    claimed_until(others, ONCE, CallState.UNKNOWN)

    ledgers.calls.record("v1_a", CALL, result())

    assert others.calls.claim("v1_a", CALL, ONCE).record.answer_to(CALL) == result()


def test_a_call_that_needs_a_yes_is_granted_to_nobody(ledgers: Ledgers) -> None:
    first = ledgers.calls.claim("v1_a", CALL, APPROVED)
    second = ledgers.calls.claim("v1_a", CALL, APPROVED)

    assert [first.granted, second.granted] == [False, False]
    assert second.record.state is CallState.APPROVAL
    assert second.busy == 0
    assert second.record.starts == 0


@pytest.mark.parametrize("odd", ["a\0b", "\ud800", "x" * 5000, "ü/../%00"])
def test_any_ids_and_names_can_be_stored(ledgers: Ledgers, odd: str) -> None:
    call = Call(odd, odd, {"deep": [odd]})
    assert ledgers.calls.claim(odd, call, ONCE).granted
    ledgers.calls.record(odd, call, Result(odd, odd, "fine", is_error=False, outcome=Outcome.OK))
    claim = ledgers.calls.claim(odd, call, ONCE)
    assert claim.record.answer_to(call).call_id == odd
    assert ledgers.calls.of(odd) == (claim.record,)
    assert ledgers.calls.get(claim.record.id) == claim.record


def test_calls_are_listed_by_state_newest_first(ledgers: Ledgers) -> None:
    for number in range(3):
        ledgers.calls.claim("v1_a", Call(f"c{number}", "f"), APPROVED if number else ONCE)

    waiting = ledgers.calls.list(CallState.APPROVAL)

    assert [each.call_id for each in waiting] == ["c2", "c1"]
    assert [each.call_id for each in ledgers.calls.list(limit=1)] == ["c2"]


def test_what_ended_long_ago_is_forgotten_and_what_waits_is_kept(ledgers: Ledgers) -> None:
    for number, terms in enumerate([ONCE, APPROVED, ONCE]):
        ledgers.calls.claim("v1_a", Call(f"c{number}", "f"), terms)
    ledgers.calls.record("v1_a", Call("c0", "f"), result())
    ledgers.continuations.begin("v1_a", Place("v1_a"), lease=30, wait=30)
    ledgers.continuations.begin("v1_b", Place("v1_b"), lease=30, wait=30)
    ledgers.continuations.sent("v1_a", "v1_c")
    year = 365 * 86400
    ledgers.database.write(lambda db: db.execute(sa.update(calls).values(ended_at=-year)))
    ledgers.database.write(lambda db: db.execute(sa.update(continuations).values(updated_at=-year)))

    assert [ledgers.handled.sweep(limit=1) for _ in range(3)] == [1, 1, 0]

    assert [each.call_id for each in ledgers.calls.of("v1_a")] == ["c1", "c2"]
    assert ledgers.continuations.of("v1_a") is None
    assert ledgers.continuations.of("v1_b") is not None
