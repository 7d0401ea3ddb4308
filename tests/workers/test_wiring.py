from concurrent.futures import Future
from typing import Any

import pytest

from gemhooks import topology
from gemhooks.consumers import Consumers
from gemhooks.events import BY_TYPE
from gemhooks.gemini import FetchedInteraction
from gemhooks.messages import Message
from workers.wiring import built_in_consumers


class Nothing:
    """Every port at once; never called."""

    def get(self, interaction_id: str, /) -> FetchedInteraction:
        raise AssertionError(interaction_id)

    def write(self, kind: str, resource_id: str, suffix: str, content: bytes, /) -> str:
        raise AssertionError(kind)

    def publish(self, message: Message, *, exchange: str = topology.EVENTS) -> Future[None]:
        raise AssertionError(exchange)

    def record(self, kind: str, id: str, state: str, **more: Any) -> None:  # noqa: A002
        raise AssertionError(kind)


@pytest.fixture
def consumers() -> Consumers:
    nothing = Nothing()
    return built_in_consumers(nothing, nothing, nothing, nothing)


def test_the_queues_are_those_that_everyone_declares(consumers: Consumers) -> None:
    assert {each.queue for each in consumers} == {each.name for each in topology.BUILT_IN}


def test_every_event_of_gemini_lands_in_one_queue_that_has_a_handler(consumers: Consumers) -> None:
    for name, kind in BY_TYPE.items():
        if kind.exchange == topology.RESULTS:
            continue
        landing = [
            queue.name
            for queue in topology.BUILT_IN
            if any(topology.matches(pattern, name) for _, pattern in queue.bindings)
        ]
        handled = [
            each.queue
            for each in consumers
            if any(issubclass(kind, handler) for handler in each.handlers)
        ]
        assert landing == handled, name
        assert len(landing) == 1, name
