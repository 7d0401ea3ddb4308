"""A future of one thread answers as any other does, but that nobody can wait for it."""

from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemhooks.errors import PublishFailed
from gemhooks.queues.rabbitmq.confirms import Confirm

FAILED = PublishFailed("nacked")
Step = tuple[str, Callable[[Future[None], list[object]], object]]


def heard(seen: list[object]) -> Callable[[Future[None]], None]:
    def hear(future: Future[None]) -> None:
        seen.append(future.done())
        raise ZeroDivisionError  # of its own: nobody else's affair

    return hear


STEPS: list[Step] = [
    ("result", lambda future, _: future.result(timeout=0)),
    ("exception", lambda future, _: future.exception(timeout=0)),
    ("done", lambda future, _: future.done()),
    ("running", lambda future, _: future.running()),
    ("cancel", lambda future, _: future.cancel()),
    ("cancelled", lambda future, _: future.cancelled()),
    ("callback", lambda future, seen: future.add_done_callback(heard(seen))),
    ("set_result", lambda future, _: future.set_result(None)),
    ("set_exception", lambda future, _: future.set_exception(FAILED)),
]


def told(future: Future[None], steps: list[Step]) -> list[object]:
    """What comes of each step, and what the callbacks saw."""
    seen: list[object] = []
    future.set_running_or_notify_cancel()
    for _, step in steps:
        try:
            seen.append(step(future, seen))
        except (TimeoutError, PublishFailed, InvalidStateError) as error:
            seen.append(type(error))
    return seen


@given(st.lists(st.sampled_from(STEPS), max_size=12))
def test_it_answers_as_a_running_future_does(steps: list[Step]) -> None:
    assert told(Confirm(), steps) == told(Future(), steps)


def test_who_asks_too_early_is_told_at_once_instead_of_waiting_for_ever() -> None:
    with pytest.raises(TimeoutError):
        Confirm().result()


def test_its_repr_says_how_it_stands() -> None:
    settled = Confirm()
    settled.set_exception(FAILED)

    assert repr(Confirm()) == "<Confirm pending: None>"
    assert "nacked" in repr(settled)
