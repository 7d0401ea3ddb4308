"""Callers that wait together are answered together, each with its own answer."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from gemhooks.errors import LedgerUnavailable
from gemhooks.ledger import batching
from gemhooks.ledger.batching import Batching
from tests.services.waiting import eventually

FIRST = -1


def asked_together(
    work: Callable[[list[int]], list[Any]], items: range
) -> tuple[list[list[int]], dict[int, Future[Any]]]:
    """What *work* was asked for after a first batch during which all *items* came, and answers."""
    entered, leave, asked = threading.Event(), threading.Event(), list[list[int]]()

    def slow(given: list[int]) -> list[Any]:
        if given == [FIRST]:
            entered.set()
            leave.wait(30)
            return [None]
        asked.append(sorted(given))
        return work(given)

    subject = Batching[int, Any](slow)
    with ThreadPoolExecutor(len(items) + 1) as pool:
        pool.submit(subject.ask, FIRST)
        assert entered.wait(30)
        futures = {item: pool.submit(subject.ask, item) for item in items}
        eventually(lambda: len(subject.waiting) == len(items), why="all wait")
        leave.set()
    return asked, futures


def test_each_of_many_callers_gets_its_own_answer() -> None:
    subject = Batching[int, int](lambda items: [2 * item for item in items])
    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(subject.ask, range(1000))) == [2 * item for item in range(1000)]


def test_what_waits_while_a_batch_runs_goes_together_in_the_next_one() -> None:
    asked, futures = asked_together(lambda items: [2 * item for item in items], range(1, 5))

    assert asked == [[1, 2, 3, 4]]
    assert {item: future.result() for item, future in futures.items()} == {1: 2, 2: 4, 3: 6, 4: 8}


def test_one_that_fails_takes_no_neighbour_with_it() -> None:
    def work(items: list[int]) -> list[int]:
        if 7 in items:
            raise ValueError(7)
        return items

    asked, futures = asked_together(work, range(8))

    assert asked[0] == list(range(8))
    assert [futures[item].result() for item in range(7)] == list(range(7))
    with pytest.raises(ValueError, match="7"):
        futures[7].result()


def test_a_database_that_is_away_is_asked_once_for_all() -> None:
    def work(items: list[int]) -> list[int]:
        raise LedgerUnavailable("away")

    asked, futures = asked_together(work, range(4))

    assert asked == [[0, 1, 2, 3]]
    assert all(isinstance(each.exception(), LedgerUnavailable) for each in futures.values())


def test_a_batch_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "MOST_AT_ONCE", 3)

    asked, futures = asked_together(lambda items: items, range(8))

    assert [len(each) for each in asked] == [3, 3, 2]
    assert all(future.result() == item for item, future in futures.items())
