"""What comes while others are worked on is done together."""

import threading

import pytest

from gemhooks import gathering
from gemhooks.gathering import Gathering
from tests.services.waiting import eventually


class Slow:
    """Work that waits at its first list, and remembers all."""

    def __init__(self) -> None:
        self.seen = list[list[int]]()
        self.entered, self.leave = threading.Event(), threading.Event()

    def __call__(self, items: list[int]) -> None:
        self.seen.append(items)
        self.entered.set()
        assert self.leave.wait(30)


def gathered_behind_one(more: int) -> list[list[int]]:
    """The lists that are made of 0 and *more* numbers that come while it is being worked on."""
    work = Slow()
    subject = Gathering(work, name="test")
    subject.put(0)
    assert work.entered.wait(30)
    for number in range(1, more + 1):
        subject.put(number)
    work.leave.set()
    assert subject.close(30)
    return work.seen


def test_what_comes_meanwhile_goes_together_in_order() -> None:
    assert gathered_behind_one(5) == [[0], [1, 2, 3, 4, 5]]


def test_a_list_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "MOST_AT_ONCE", 3)
    assert gathered_behind_one(5) == [[0], [1, 2, 3], [4, 5]]


def test_work_that_fails_does_not_end_the_thread() -> None:
    seen = list[int]()

    def work(items: list[int]) -> None:
        if 0 in items:
            raise ValueError(items)
        seen.extend(items)

    subject = Gathering(work, name="test")
    subject.put(0)
    eventually(lambda: not subject.waiting, why="the first is taken")
    subject.put(1)
    assert subject.close(30)
    assert seen == [1]


def test_closing_says_when_work_goes_on() -> None:
    work = Slow()
    subject = Gathering(work, name="test")
    subject.put(0)
    assert work.entered.wait(30)
    assert not subject.close(0.01)
    work.leave.set()
    assert subject.close(30)
