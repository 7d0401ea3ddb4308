"""Work on a thread of its own ends in its future, whatever becomes of it."""

from contextvars import ContextVar

import pytest

from gemhooks.beside import beside

about: ContextVar[str] = ContextVar("about")


def test_it_returns_what_the_work_does_and_knows_what_the_caller_does() -> None:
    about.set("msg_1")

    assert beside(about.get, name="test").result(30) == "msg_1"


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt])
def test_it_raises_what_the_work_does(error: type[BaseException]) -> None:
    def work() -> None:
        raise error

    with pytest.raises(error):
        beside(work, name="test").result(30)
