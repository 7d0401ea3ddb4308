"""Callers that wait together are answered together, each with its own answer."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemhooks.errors import LedgerUnavailable
from gemhooks.ledger.batching import MOST_AT_ONCE, Batching


def test_each_of_many_callers_gets_its_own_answer() -> None:
    batching = Batching[int, int](lambda items: [2 * item for item in items])
    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(batching.ask, range(1000))) == [2 * item for item in range(1000)]


def test_what_waits_while_a_batch_runs_goes_together_in_the_next_one() -> None:
    entered, leave, seen = threading.Event(), threading.Event(), list[list[int]]()

    def work(items: list[int]) -> list[None]:
        seen.append(sorted(items))
        entered.set()
        leave.wait(30)
        return [None] * len(items)

    batching = Batching[int, None](work)
    with ThreadPoolExecutor(5) as pool:
        pool.submit(batching.ask, 0)
        entered.wait(30)
        for number in (1, 2, 3, 4):
            pool.submit(batching.ask, number)
        while len(batching.waiting) < 4:
            threading.Event().wait(0.001)
        leave.set()
    assert seen == [[0], [1, 2, 3, 4]]


def test_one_that_fails_takes_no_neighbour_with_it() -> None:
    def work(items: list[int]) -> list[int]:
        if 7 in items:
            raise ValueError(7)
        return items

    batching = Batching[int, int](work)
    with ThreadPoolExecutor(8) as pool:
        futures = [pool.submit(batching.ask, number) for number in range(8)]
    assert [future.result() for future in futures[:7]] == list(range(7))
    with pytest.raises(ValueError, match="7"):
        futures[7].result()


def test_an_absent_database_is_asked_once_per_batch() -> None:
    asked = list[int]()

    def work(items: list[int]) -> list[int]:
        asked.append(len(items))
        raise LedgerUnavailable("away")

    batching = Batching[int, int](work)
    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(batching.ask, number) for number in range(4)]
    assert all(isinstance(future.exception(), LedgerUnavailable) for future in futures)
    assert sum(asked) == 4


@given(st.integers(min_value=1, max_value=3 * MOST_AT_ONCE))
def test_a_batch_is_bounded(count: int) -> None:
    sizes = list[int]()

    def work(items: list[int]) -> list[None]:
        sizes.append(len(items))
        return [None] * len(items)

    batching = Batching[int, None](work)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(batching.ask, range(count)))
    assert max(sizes) <= MOST_AT_ONCE
    assert sum(sizes) == count
