"""What the tests of queues say over and over."""

import queue
from functools import partial

import pytest

from gemhooks import topology
from gemhooks.messages import Broker, Delivery, Message
from tests.services import waiting

PATIENCE = 60.0  # seconds; a bound for waits, not a length
SILENCE = 0.5  # seconds in which nothing may come

ALL = topology.Queue("gemhooks.all", ((topology.EVENTS, "test.#"),))
SOME = topology.Queue("gemhooks.some", ((topology.EVENTS, "test.*"),))

Received = queue.SimpleQueue[Delivery]


def event(number: int = 1, kind: str = "test.done", body: bytes = b'{"a": 1}') -> Message:
    return Message(f"msg_{number}", kind, body, timestamp=1_700_000_000)


def publish(broker: Broker, *messages: Message) -> None:
    for future in [broker.publisher.publish(message) for message in messages]:
        future.result(PATIENCE)


def consume(broker: Broker, name: str = ALL.name, prefetch: int = 10) -> Received:
    received: Received = queue.SimpleQueue()
    broker.consume(name, received.put, prefetch=prefetch)
    return received


def take(received: Received) -> Delivery:
    return received.get(timeout=PATIENCE)


def assert_silent(received: Received) -> None:
    with pytest.raises(queue.Empty):
        received.get(timeout=SILENCE)


eventually = partial(waiting.eventually, seconds=PATIENCE)
