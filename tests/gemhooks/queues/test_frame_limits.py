"""What a frame, and the way to RabbitMQ, can hold."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit, urlunsplit

import pytest

from gemhooks.errors import PublishFailed
from gemhooks.messages import Message
from gemhooks.queues.rabbitmq import RabbitBroker
from tests.gemhooks.queues.helpers import ALL, PATIENCE, consume, event, eventually, publish, take
from tests.services.proxy import Proxy, Way

SMALLEST = 4096  # bytes of a frame that AMQP guarantees


@contextmanager
def opened(url: str) -> Iterator[RabbitBroker]:
    broker = RabbitBroker(url, publish_timeout=PATIENCE, declare=[ALL])
    broker.declare([ALL])
    yield broker
    broker.close()


@pytest.mark.parametrize("frames", [1, 3])
@pytest.mark.parametrize("more", [-1, 0, 1])
def test_a_body_arrives_whole_wherever_its_last_frame_ends(
    amqp_url: str, frames: int, more: int
) -> None:
    body = os.urandom(frames * (SMALLEST - 8) + more)
    with opened(f"{amqp_url}?frame_max={SMALLEST}") as broker:
        publish(broker, event(1, body=body), event(2, body=b""))
        received = consume(broker)
        first, second = take(received), take(received)

        assert (first.message.body, second.message.body) == (body, b"")
        first.ack()
        second.ack()


def test_an_id_longer_than_a_frame_costs_neither_its_message_nor_the_connection(
    amqp_url: str,
) -> None:
    long = Message("é" * 2048, "test.done", b"{}", time="2026-01-01T00:00:00Z")
    with opened(f"{amqp_url}?frame_max={SMALLEST}") as broker:
        publish(broker, long)
        delivery = take(consume(broker))

        assert delivery.message.id == long.key
        assert (delivery.message.time, delivery.message.type) == (long.time, long.type)
        delivery.ack()


def test_what_a_broker_does_not_read_does_not_fill_the_memory(amqp_url: str) -> None:
    parts = urlsplit(amqp_url)
    megabyte = event(body=bytes(1_000_000))
    with Proxy(parts.port or 5672) as proxy:
        place = f"{parts.username}:{parts.password}@127.0.0.1:{proxy.port}"
        with opened(urlunsplit(parts._replace(netloc=place))) as broker:
            proxy.silent = frozenset({Way.UP})
            waiting = [broker.publisher.publish(megabyte) for _ in range(100)]

            with pytest.raises(PublishFailed, match="blocked"):
                waiting[-1].result(PATIENCE)

            proxy.silent = frozenset()
            eventually(lambda: confirmed(broker))


def confirmed(broker: RabbitBroker) -> bool:
    return broker.publisher.publish(event()).exception(PATIENCE) is None
