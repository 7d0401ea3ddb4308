"""What every broker must do, whichever it is."""

import os
import queue
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from gemhooks import topology
from gemhooks.errors import Misconfigured, PublishFailed
from gemhooks.messages import Broker, DeadLetter, Message
from gemhooks.queues.rabbitmq import RabbitBroker
from gemhooks.queues.sqlite import SqliteBroker
from tests.gemhooks.queues.helpers import (
    ALL,
    PATIENCE,
    SOME,
    Received,
    assert_silent,
    consume,
    event,
    eventually,
    publish,
    take,
)

ROOT = Path(__file__).parents[3]


class BrokerFactory(Protocol):
    """Makes brokers that share one place, and closes them in the end."""

    url: str

    def __call__(self) -> Broker: ...


class RabbitFactory:
    def __init__(self, url: str) -> None:
        self.url = url
        self.made: list[RabbitBroker] = []

    def __call__(self) -> Broker:
        broker = RabbitBroker(self.url, publish_timeout=PATIENCE, declare=[ALL, SOME])
        self.made.append(broker)
        return broker


class SqliteFactory:
    def __init__(self, folder: Path) -> None:
        self.url = f"sqlite:///{folder}/queue.db"
        self.made: list[SqliteBroker] = []

    def __call__(self) -> Broker:
        broker = SqliteBroker(self.url, publish_timeout=PATIENCE, queues=[ALL, SOME])
        self.made.append(broker)
        return broker


@pytest.fixture(params=["rabbitmq", "sqlite"])
def broker_factory(request: pytest.FixtureRequest) -> Iterator[BrokerFactory]:
    factory: RabbitFactory | SqliteFactory
    if request.param == "rabbitmq":
        factory = RabbitFactory(request.getfixturevalue("amqp_url"))
    else:
        factory = SqliteFactory(request.getfixturevalue("tmp_path"))
    yield factory
    for broker in factory.made:
        broker.close()


@pytest.fixture
def broker(broker_factory: BrokerFactory) -> Broker:
    broker = broker_factory()
    broker.declare([ALL, SOME])
    return broker


def test_a_message_reaches_every_queue_whose_pattern_matches(broker: Broker) -> None:
    everything, some = consume(broker), consume(broker, SOME.name)
    publish(broker, event(1, "test.done"), event(2, "test.long.name"))
    assert {take(everything).message.id for _ in range(2)} == {"msg_1", "msg_2"}
    assert take(some).message.id == "msg_1"
    assert_silent(some)


def test_a_message_arrives_as_it_was_sent(broker: Broker) -> None:
    sent = Message(
        "msg_1", "test.done", b"\x00{not json", 1_700_000_000, "2026-01-01T00:00:00Z",
        "text/plain", scheme="v1", trust="hint", attempt=3, replay=2, traceparent="00-ab-cd-01",
    )  # fmt: skip
    publish(broker, sent)
    assert take(consume(broker)).message == sent


def test_an_id_or_type_that_amqp_cannot_carry_still_arrives(broker: Broker) -> None:
    unrouted = consume(broker, topology.UNROUTED)
    publish(broker, Message("i" * 600, "t" * 600, b"{}"))
    message = take(unrouted).message
    assert (message.id, message.type) == ("i" * 600, "t" * 600)


def test_what_is_settled_makes_room_though_others_are_still_handled(broker: Broker) -> None:
    received = consume(broker, prefetch=3)
    publish(broker, *(event(number) for number in range(6)))
    first, second, third = (take(received) for _ in range(3))
    second.ack()
    fourth = take(received)
    fourth.ack()
    third.ack()
    assert {take(received).message.id, take(received).message.id} == {"msg_4", "msg_5"}
    first.ack()


def test_text_that_is_no_unicode_is_not_refused(broker: Broker) -> None:
    unrouted = consume(broker, topology.UNROUTED)
    publish(broker, Message("msg_\ud800", "x.\udfff", b"{}"))
    assert take(unrouted).message.body == b"{}"


def test_a_huge_type_is_not_refused(broker: Broker) -> None:
    unrouted = consume(broker, topology.UNROUTED)
    publish(broker, Message("msg_1", "t" * 1_000_000, b"{}"))
    assert take(unrouted).message.body == b"{}"


def test_what_no_queue_wants_goes_to_unrouted(broker: Broker) -> None:
    publish(broker, event(1, "nobody.wants.this"))
    assert take(consume(broker, topology.UNROUTED)).message.type == "nobody.wants.this"


def test_a_queue_that_is_not_there_takes_nothing_and_shows_nothing(broker: Broker) -> None:
    publish(broker, event(1))
    for name in ("gemhooks.nosuch", topology.dead_letters("gemhooks.nosuch")):
        with pytest.raises(PublishFailed, match="returned"):
            broker.send(name, event(2)).result(PATIENCE)
        with pytest.raises(Misconfigured, match="no queue"):
            broker.look(name)


def test_every_queue_of_a_consumer_takes_what_is_sent_to_it_alone(broker: Broker) -> None:
    for name in (SOME.name, SOME.dead_letters, topology.UNROUTED):
        broker.send(name, event(1)).result(PATIENCE)
        assert len(broker.browse(name, 10)) == 1
    assert not broker.browse(ALL.name, 10)


def test_a_result_that_nobody_hears_is_confirmed(broker: Broker) -> None:
    future = broker.publisher.publish(event(1, "batch.row"), exchange=topology.RESULTS)
    assert future.result(PATIENCE) is None


def test_an_exchange_that_nobody_has_heard_of_is_refused_for_good(broker: Broker) -> None:
    future = broker.publisher.publish(event(), exchange="nowhere")
    failure = future.exception(PATIENCE)

    assert isinstance(failure, PublishFailed)
    assert (failure.reason, failure.passes) == ("refused", False)
    eventually(broker.is_ready)
    publish(broker, event(2))


def test_an_acknowledged_message_is_gone(broker_factory: BrokerFactory, broker: Broker) -> None:
    publish(broker, event())
    take(consume(broker)).ack()
    broker.close()
    assert_silent(consume(broker_factory()))


def test_an_unsettled_message_goes_back_on_close(
    broker_factory: BrokerFactory, broker: Broker
) -> None:
    publish(broker, event())
    take(consume(broker))
    broker.close()
    assert take(consume(broker_factory())).redelivered


def test_later_comes_back_after_its_delay_with_its_attempt(broker: Broker) -> None:
    received = consume(broker)
    publish(broker, event())
    first, began = take(received), time.monotonic()
    first.later(first.message.next_attempt(), after=1.0)
    second = take(received)
    assert time.monotonic() - began >= 0.9
    assert (second.message.attempt, second.message.waiting) == (2, 0)
    assert second.message.body == first.message.body


def test_later_comes_back_to_its_own_queue_only(broker: Broker) -> None:
    everything, some = consume(broker), consume(broker, SOME.name)
    publish(broker, event())
    take(some).ack()
    delivery = take(everything)
    delivery.later(delivery.message, after=1.0)
    take(everything).ack()
    assert_silent(some)


def test_what_still_has_to_wait_hops_again_uncounted(broker: Broker) -> None:
    received = consume(broker)
    began = time.monotonic()
    publish(broker, Message("msg_1", "test.done", b"{}", waiting=1, attempt=2))
    delivery = take(received)
    assert time.monotonic() - began >= 0.9
    assert (delivery.message.waiting, delivery.message.attempt) == (0, 2)


def test_a_dead_letter_keeps_its_body_and_its_message(broker: Broker) -> None:
    publish(broker, event(body=b"\xff\x00"))
    take(consume(broker)).dead(DeadLetter("no such resource", "Gone", "404"))
    assert take(consume(broker, ALL.dead_letters)).message == event(body=b"\xff\x00")


def test_a_dead_letter_leaves_its_queue(broker_factory: BrokerFactory, broker: Broker) -> None:
    publish(broker, event())
    take(consume(broker)).dead(DeadLetter("no such resource"))
    take(consume(broker, ALL.dead_letters))
    broker.close()
    assert_silent(consume(broker_factory()))


def test_a_message_that_was_given_back_is_redelivered(broker: Broker) -> None:
    received = consume(broker)
    publish(broker, event())
    take(received).give_back()
    again = take(received)
    assert again.redelivered
    assert again.message == event()


def test_no_more_than_prefetch_messages_are_in_hands(broker: Broker) -> None:
    publish(broker, *(event(number) for number in range(5)))
    received = consume(broker, prefetch=2)
    first = take(received)
    take(received)
    assert_silent(received)
    first.ack()
    take(received)
    assert_silent(received)


def test_two_consumers_share_a_queue(broker_factory: BrokerFactory, broker: Broker) -> None:
    one, two = consume(broker, prefetch=1), consume(broker_factory(), prefetch=1)
    publish(broker, *(event(number) for number in range(2)))
    assert {take(one).message.id, take(two).message.id} == {"msg_0", "msg_1"}


def test_a_stopped_subscriber_takes_no_more_but_can_settle(broker: Broker) -> None:
    received: Received = queue.SimpleQueue()
    subscriber = broker.consume(ALL.name, received.put, prefetch=10)
    publish(broker, event(1))
    taken = take(received)
    subscriber.stop()
    publish(broker, event(2))
    assert_silent(received)
    taken.ack()
    assert take(consume(broker)).message.id == "msg_2"


def test_a_broker_that_can_publish_is_ready(broker: Broker) -> None:
    eventually(broker.is_ready)


def test_publishing_to_a_closed_broker_fails_in_bounded_time(broker: Broker) -> None:
    broker.close()
    assert not broker.is_ready()
    with pytest.raises(PublishFailed):
        broker.publisher.publish(event()).result(PATIENCE)


def test_settling_after_close_is_harmless(broker: Broker) -> None:
    publish(broker, event())
    delivery = take(consume(broker))
    broker.close()
    delivery.ack()
    delivery.give_back()


def test_what_a_killed_process_held_is_redelivered(
    broker_factory: BrokerFactory, broker: Broker
) -> None:
    publish(broker, event())
    holder = subprocess.Popen(
        [sys.executable, "-m", "tests.gemhooks.queues.holding", broker_factory.url, ALL.name],
        stdout=subprocess.PIPE,
        cwd=ROOT,
    )
    with holder:
        assert holder.stdout
        assert holder.stdout.readline() == b"msg_1\n"
        os.kill(holder.pid, signal.SIGKILL)
    assert take(consume(broker)).redelivered
