"""What the simulator remembers is bounded, and what leaves is told."""

import pytest

from gemhooks.simulator.refusals import Refusal
from gemhooks.simulator.shelf import Shelf


def test_the_oldest_make_room_for_the_newest() -> None:
    gone: list[str] = []
    shelf = Shelf[str]("Thing", 10, dropped=gone.append)
    for key, weight in (("a", 4), ("b", 4), ("c", 4), ("d", 9)):
        shelf.put(key, key.upper(), weight)
    assert (shelf.values(), gone) == (("D",), ["A", "B", "C"])


def test_one_that_is_too_heavy_is_kept_alone() -> None:
    shelf = Shelf[str]("Thing", 10)
    shelf.put("a", "A")
    shelf.put("b", "B", 100)
    assert shelf.values() == ("B",)
    shelf.put("c", "C")
    assert shelf.values() == ("C",)


def test_what_is_put_again_weighs_once() -> None:
    shelf = Shelf[str]("Thing", 10)
    shelf.put("a", "A")
    for _ in range(5):
        shelf.put("b", "B", 9)
    assert len(shelf) == 2


def test_what_is_not_there_is_refused_as_not_found() -> None:
    shelf = Shelf[str]("Thing", 10)
    for call in (shelf.get, shelf.remove):
        with pytest.raises(Refusal) as raised:
            call("x")
        assert (raised.value.code, raised.value.message) == (404, "Thing x not found.")
    shelf.wait("x", lambda _: False, timeout=60)  # what is gone is not waited for
