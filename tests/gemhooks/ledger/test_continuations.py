"""An interaction is continued once, and what was lost is found again by its key."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from gemhooks.functions.chains import Begun, Place, SendState
from gemhooks.ledger import Ledgers

FIRST = Place("v1_a")


def begin(ledgers: Ledgers, *, lease: float = 30.0, wait: float = 30.0) -> Begun:
    return ledgers.continuations.begin("v1_a", FIRST, lease=lease, wait=wait)


def standing(ledgers: Ledgers, wanted: SendState, *, wait: float) -> Begun:
    """How it stands once time has made *wanted* of it."""
    deadline = time.monotonic() + 60
    while (begun := begin(ledgers, wait=wait)).continuation.state is not wanted:
        assert not begun.granted
        assert time.monotonic() < deadline
    return begun


def test_of_many_that_ask_at_once_one_may_send(ledgers: Ledgers, others: Ledgers) -> None:
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(begin, [ledgers, others] * 8))

    assert sum(each.granted for each in answers) == 1
    assert len({each.continuation.key for each in answers}) == 1


def test_what_was_sent_is_sent_for_ever(ledgers: Ledgers) -> None:
    begin(ledgers)
    ledgers.continuations.sent("v1_a", "v1_b")

    again = begin(ledgers)

    assert not again.granted
    assert (again.continuation.state, again.continuation.successor_id) == ("sent", "v1_b")
    assert ledgers.continuations.lost("v1_a") is None
    assert ledgers.continuations.not_sent("v1_a", "") is None


def test_what_was_surely_not_sent_is_sent_again_under_the_same_key(ledgers: Ledgers) -> None:
    first = begin(ledgers)
    ledgers.continuations.not_sent("v1_a", "Gemini answered 500")

    second = begin(ledgers)

    assert second.granted
    assert second.continuation.key == first.continuation.key


def test_a_lost_answer_waits_for_its_event_and_then_for_a_person(ledgers: Ledgers) -> None:
    begin(ledgers)
    ledgers.continuations.lost("v1_a")

    waiting = begin(ledgers)
    assert waiting.continuation.state is SendState.LOST
    assert 0 < waiting.busy <= 30
    assert not standing(ledgers, SendState.UNKNOWN, wait=0.05).granted


def test_who_dies_over_sending_leaves_it_lost(ledgers: Ledgers, others: Ledgers) -> None:
    begin(ledgers, lease=0.05)

    assert not standing(others, SendState.LOST, wait=30).granted


@pytest.mark.parametrize("lost", [True, False])
def test_the_event_with_its_key_settles_it(ledgers: Ledgers, *, lost: bool) -> None:
    key = begin(ledgers).continuation.key
    if lost:
        ledgers.continuations.lost("v1_a")

    found = ledgers.continuations.recognise(key, "v1_b")

    assert found is not None
    assert (found.state, found.successor_id, found.interaction_id) == ("sent", "v1_b", "v1_a")
    assert ledgers.continuations.leading_to("v1_b") == found
    assert found.next_place() == Place("v1_a", 2, found.chain_started_at)


def test_of_several_successors_the_first_that_is_seen_counts(ledgers: Ledgers) -> None:
    key = begin(ledgers).continuation.key
    ledgers.continuations.recognise(key, "v1_b")

    second = ledgers.continuations.recognise(key, "v1_c")

    assert second is not None
    assert second.successor_id == "v1_b"
    assert ledgers.continuations.sent("v1_a", "v1_c") is None
    assert ledgers.continuations.leading_to("v1_c") is None


def test_a_key_that_nobody_gave_out_proves_nothing(ledgers: Ledgers) -> None:
    begin(ledgers)

    assert ledgers.continuations.recognise("guessed", "v1_b") is None
    assert ledgers.continuations.of("v1_b") is None
