"""As many threads as there is work that waits, and no more."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from gemhooks.pool import Pool
from tests.services.waiting import eventually

SIZE = 8


@contextmanager
def blocking(size: int = SIZE) -> Iterator[tuple[Pool[int], list[int], threading.Event]]:
    """A pool whose jobs end when the event is set, and those that began."""
    begun, leave = list[int](), threading.Event()

    def work(job: int) -> None:
        begun.append(job)
        leave.wait(30)

    pool = Pool(work, size)
    try:
        yield pool, begun, leave
    finally:
        leave.set()
        pool.stop()
        assert pool.wait(30)


def test_jobs_that_block_all_run_at_once_up_to_the_size() -> None:
    with blocking() as (pool, begun, leave):
        for number in range(3 * SIZE):
            pool.put(number)
        eventually(lambda: len(begun) == SIZE, why="as many as may run do")
        leave.set()
        eventually(lambda: len(begun) == 3 * SIZE, why="the others run then")


def test_a_job_that_blocks_holds_up_nobody_behind_it() -> None:
    ended, leave = list[int](), threading.Event()

    def work(job: int) -> None:
        if job == 0:
            leave.wait(30)
        else:
            ended.append(job)

    pool = Pool(work, SIZE)
    for number in range(100):
        pool.put(number)
    eventually(lambda: len(ended) == 99, why="all but the first ended")
    leave.set()
    pool.stop()
    assert pool.wait(30)


def test_a_job_that_comes_while_another_blocks_begins() -> None:
    with blocking() as (pool, begun, _):
        for number in range(SIZE):
            pool.put(number)
            eventually(lambda: number in begun, why=f"job {number} began")  # noqa: B023 - at once


def test_jobs_begin_in_the_order_in_which_they_came() -> None:
    begun = list[int]()
    pool = Pool(begun.append, 1)
    for number in range(1000):
        pool.put(number)
    eventually(lambda: len(begun) == 1000, why="all began")
    pool.stop()
    assert begun == list(range(1000))


def test_one_thread_does_what_comes_one_by_one() -> None:
    threads = set[str]()
    pool = Pool[int](lambda _: threads.add(threading.current_thread().name), SIZE)
    for number in range(50):
        pool.put(number)
        assert pool.wait(30)
    pool.stop()
    assert len(threads) == 1


def test_what_was_never_begun_is_given_back_and_nothing_more_is_taken() -> None:
    with blocking(1) as (pool, begun, leave):
        for number in range(4):
            pool.put(number)
        eventually(lambda: begun == [0], why="the first runs")
        assert pool.stop() == [1, 2, 3]
        assert not pool.put(4)
        assert not pool.wait(0.01)
        leave.set()
        assert pool.wait(30)
        assert begun == [0]


def test_a_job_that_fails_takes_no_thread_with_it() -> None:
    ended = list[int]()

    def work(job: int) -> None:
        if job == 0:
            raise SystemExit
        ended.append(job)

    pool = Pool(work, 1)
    pool.put(0)
    pool.put(1)
    eventually(lambda: ended == [1], why="the next one runs")
    pool.stop()


def test_a_stopped_pool_leaves_no_thread() -> None:
    before = set(threading.enumerate())
    with blocking() as (pool, begun, _):
        for number in range(SIZE):
            pool.put(number)
        eventually(lambda: len(begun) == SIZE, why="all run")
    eventually(lambda: set(threading.enumerate()) <= before, why="all ended")


def test_a_pool_that_never_had_a_job_can_be_stopped() -> None:
    pool = Pool[int](print, SIZE)
    assert pool.stop() == []
    assert pool.wait(0)
