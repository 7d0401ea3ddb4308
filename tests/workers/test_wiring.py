from concurrent.futures import Future
from typing import Any

import orjson
import pytest
from prometheus_client import CollectorRegistry

from gemhooks import events, topology
from gemhooks.consumers import Consumers
from gemhooks.events import BY_TYPE
from gemhooks.gemini import FetchedInteraction
from gemhooks.ledger import Job
from gemhooks.messages import Message
from gemhooks.metrics import ResultMetrics
from workers.wiring import built_in_consumers


class NoJobs:
    """Knows no job, and must note none."""

    def get(self, kind: str, id: str, /) -> Job | None:  # noqa: A002
        return None

    def record(self, kind: str, id: str, state: str, **more: Any) -> None:  # noqa: A002
        raise AssertionError(kind)


class Nothing:
    """Every port at once; never called."""

    def get(self, interaction_id: str, /) -> FetchedInteraction:
        raise AssertionError(interaction_id)

    def write(self, kind: str, resource_id: str, suffix: str, content: bytes, /) -> str:
        raise AssertionError(kind)

    def publish(self, message: Message, *, exchange: str = topology.EVENTS) -> Future[None]:
        raise AssertionError(exchange)


@pytest.fixture
def consumers() -> Consumers:
    nothing = Nothing()
    return built_in_consumers(
        nothing, nothing, nothing, NoJobs(), metrics=ResultMetrics(CollectorRegistry())
    )


def test_the_queues_are_those_that_everyone_declares(consumers: Consumers) -> None:
    assert {each.queue for each in consumers} == {each.name for each in topology.BUILT_IN}


NEW = ("interaction.incomplete", "interaction.brand_new", "batch.brand_new", "video.failed")


def test_every_event_lands_where_it_has_a_handler_and_is_recorded_once(
    consumers: Consumers,
) -> None:
    for name in (*BY_TYPE, *NEW):
        kind = type(events.parse(orjson.dumps({"type": name, "data": {"id": "i"}})))
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
        acted_on = {topology.FUNCTIONS.name} & set(landing)
        assert bool(acted_on) == (name == "interaction.requires_action"), name
        assert len(set(landing) - acted_on) == 1, name


def test_the_late_event_and_the_polled_one_are_one(consumers: Consumers) -> None:
    assert all(each.rules.once_per_resource for each in consumers)
