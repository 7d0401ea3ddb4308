"""What only RabbitMQ can do to us."""

import asyncio
import contextlib
import queue
import re
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import pika
import pytest
from msgspec.structs import replace
from pika import data
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker
from structlog.testing import capture_logs

from gemhooks import topology
from gemhooks.errors import GemhooksError, Misconfigured, PublishFailed, Unavailable
from gemhooks.messages import DeadLetter, Message
from gemhooks.queues.connect import check
from gemhooks.queues.rabbitmq import RabbitBroker, decoding, outbox
from tests.gemhooks.queues.helpers import (
    ALL,
    PATIENCE,
    SILENCE,
    SOME,
    Received,
    assert_silent,
    consume,
    event,
    eventually,
    publish,
    take,
)
from tests.services.rabbitmq import Broker, RabbitNode

LONG = 1_800_000  # milliseconds for an acknowledgement, RabbitMQ's own
SETTLED = 300  # more than the 32 acks that RabbitMQ's channel sends a quorum queue at a time


@pytest.fixture
def broker(amqp_url: str) -> Iterator[RabbitBroker]:
    with opened(amqp_url) as broker:
        yield broker


@contextmanager
def opened(url: str) -> Iterator[RabbitBroker]:
    broker = RabbitBroker(url, publish_timeout=PATIENCE, declare=[ALL, SOME])
    broker.declare([ALL])
    yield broker
    broker.close()


@pytest.fixture
def channel(amqp_url: str) -> Iterator[BlockingChannel]:
    """A person with rights of their own on the vhost."""
    connection = pika.BlockingConnection(pika.URLParameters(amqp_url))
    yield connection.channel()
    connection.close()


def look(channel: BlockingChannel, name: str) -> tuple[pika.BasicProperties, bytes]:
    """The first message of a queue, as soon as there is one."""
    found: list[tuple[pika.BasicProperties, bytes]] = []

    def get() -> bool:
        _, properties, body = channel.basic_get(name)
        if properties is not None and body is not None:
            found.append((properties, body))
        return bool(found)

    eventually(get)
    return found[0]


def failure(broker: RabbitBroker, message: Message) -> str:
    with pytest.raises(PublishFailed) as caught:
        broker.publish(message).result(PATIENCE)
    return caught.value.reason


def test_the_properties_are_those_that_the_design_names(
    broker: RabbitBroker, channel: BlockingChannel
) -> None:
    publish(broker, event())
    properties, body = look(channel, ALL.name)
    assert (properties.message_id, properties.type) == ("msg_1", "test.done")
    assert (properties.timestamp, properties.content_type) == (1_700_000_000, "application/json")
    assert (properties.delivery_mode, properties.app_id) == (2, "gemhooks")
    assert body == event().body


def test_only_our_own_headers_travel_with_a_dead_letter(
    broker: RabbitBroker, channel: BlockingChannel
) -> None:
    received = consume(broker)
    publish(broker, event())
    delivery = take(received)
    delivery.later(delivery.message, after=1.0)
    take(received).dead(DeadLetter("no use", "Gone", "404"))
    headers = look(channel, ALL.dead_letters)[0].headers or {}
    assert not [name for name in headers if name.startswith(("x-death", "x-first-death"))]
    assert headers["gemhooks-dead-reason"] == "no use"
    assert headers["gemhooks-dead-queue"] == ALL.name
    assert {"gemhooks-dead-at", "gemhooks-dead-host"} <= headers.keys()


def test_a_longer_wait_starts_on_the_longest_rung_and_keeps_the_rest(
    broker: RabbitBroker, channel: BlockingChannel
) -> None:
    publish(broker, event())
    delivery = take(consume(broker))
    delivery.later(delivery.message, after=30_000)
    headers = look(channel, topology.retry_name(21600))[0].headers or {}
    assert headers["gemhooks-waiting"] == 8400


def test_a_queue_with_other_arguments_is_named_and_the_others_work(
    amqp_url: str, channel: BlockingChannel
) -> None:
    channel.queue_declare(SOME.name, durable=True)  # classic, not quorum
    broker = RabbitBroker(amqp_url, publish_timeout=PATIENCE)
    try:
        with pytest.raises(Misconfigured, match=rf"{SOME.name}.*PRECONDITION_FAILED.*x-queue-type"):
            broker.declare([ALL, SOME])
        publish(broker, event())
        assert take(consume(broker)).message == event()
    finally:
        broker.close()


def test_a_queue_that_was_made_anew_with_other_arguments_is_not_ready_until_it_is_ours(
    amqp_url: str, channel: BlockingChannel
) -> None:
    broker = RabbitBroker(amqp_url, declare=[ALL], declare_every=0.5)
    with contextlib.closing(broker):
        broker.declare([ALL])
        consume(broker)
        eventually(broker.is_ready)
        channel.queue_delete(ALL.name)
        channel.queue_declare(ALL.name, durable=True)  # classic, and nothing is bound to it
        eventually(lambda: not broker.is_ready())
        channel.queue_delete(ALL.name)
        eventually(broker.is_ready)


def test_a_return_fails_its_own_message_only(
    broker: RabbitBroker, channel: BlockingChannel
) -> None:
    channel.exchange_declare("bare", "topic")
    channel.queue_declare("heard")
    channel.queue_bind("heard", "bare", "heard")
    lost = broker.publish(event(1, "lost"), exchange="bare")
    heard = broker.publish(event(1, "heard"), exchange="bare")  # the same id
    assert heard.result(PATIENCE) is None
    with pytest.raises(PublishFailed, match="returned"):
        lost.result(PATIENCE)


def test_a_missing_exchange_costs_its_messages_and_no_others(broker: RabbitBroker) -> None:
    """RabbitMQ closes the channel of all for it: once, not for each message."""
    with pytest.raises(PublishFailed, match=r"refused.*no exchange 'missing'") as refused:
        broker.publish(event(), exchange="missing").result(PATIENCE)
    assert not refused.value.passes  # else its handler would try again for ever, uncounted
    eventually(broker.is_ready)
    futures = [
        broker.publish(event(number), exchange=name)
        for number, name in enumerate(("missing", topology.EVENTS, "missing", topology.EVENTS))
    ]
    assert [type(each.exception(PATIENCE)) for each in futures] == [
        *(PublishFailed, type(None)),
        *(PublishFailed, type(None)),
    ]


def test_an_exchange_of_ours_that_is_missing_is_away_and_not_refused(
    broker: RabbitBroker, channel: BlockingChannel
) -> None:
    """It is declared again."""
    channel.exchange_delete(topology.RESULTS)
    with pytest.raises(PublishFailed, match="disconnected") as away:
        broker.publish(event(), exchange=topology.RESULTS).result(PATIENCE)
    assert away.value.passes


def test_an_exchange_that_was_missing_is_tried_again_in_time(
    broker: RabbitBroker, channel: BlockingChannel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "REFUSED", 0.2)
    with pytest.raises(PublishFailed, match="refused"):
        broker.publish(event(), exchange="late").result(PATIENCE)
    channel.exchange_declare("late", "topic")
    channel.queue_declare("heard")
    channel.queue_bind("heard", "late", "#")

    eventually(lambda: not broker.publish(event(), exchange="late").exception(PATIENCE))


def test_a_message_over_the_brokers_limit_is_too_large(broker: RabbitBroker) -> None:
    assert failure(broker, event(body=bytes(134_217_729))) == "too_large"
    eventually(broker.is_ready)
    publish(broker, event())


def test_a_dead_letter_that_has_no_place_yet_is_kept_until_it_has_one(
    broker: RabbitBroker, channel: BlockingChannel
) -> None:
    received = consume(broker)
    publish(broker, event())
    channel.queue_delete(ALL.dead_letters)
    with capture_logs() as lines:
        take(received).dead(DeadLetter("no use"))
        eventually(lambda: "copy_failed" in [line["event"] for line in lines])
    broker.declare([ALL])
    assert look(channel, ALL.dead_letters)[1] == event().body


def test_a_consumer_that_the_broker_cancels_subscribes_again(
    broker: RabbitBroker, channel: BlockingChannel
) -> None:
    received = consume(broker)
    publish(broker, event(1))
    take(received).ack()
    with capture_logs() as lines:
        channel.queue_delete(ALL.name)
        eventually(lambda: "consumer_lost" in [line["event"] for line in lines])
    broker.declare([ALL])
    publish(broker, event(2))
    assert take(received).message.id == "msg_2"


def test_browsing_uses_nothing_up(broker: RabbitBroker) -> None:
    publish(broker, *(event(number) for number in range(3)))
    for _ in range(2):
        assert [seen.id for seen, _ in broker.browse(ALL.name, 2)] == ["msg_0", "msg_1"]
    assert len(broker.browse(ALL.name, 10)) == 3


def test_sending_to_one_queue_reaches_no_other(broker: RabbitBroker) -> None:
    everything, some = consume(broker), consume(broker, SOME.name)
    broker.send(SOME.name, event()).result(PATIENCE)
    assert take(some).message == event()
    assert_silent(everything)


def test_a_broker_on_a_given_loop_publishes_without_blocking_it(amqp_url: str) -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        broker = RabbitBroker(amqp_url, publish_timeout=PATIENCE, loop=loop)
        async with asyncio.timeout(PATIENCE):
            while not broker.is_ready():  # noqa: ASYNC110 - the protocol has no event for it
                await asyncio.sleep(0.02)
            await asyncio.wrap_future(broker.publish(event()))
            await broker.aclose()
        assert not broker.is_ready()

    asyncio.run(scenario())


def changed(url: str, **changes: Any) -> str:
    parameters = pika.URLParameters(url)
    user, port = changes.get("user", "guest:guest"), changes.get("port", parameters.port)
    vhost = changes.get("vhost", parameters.virtual_host)
    return f"amqp://{user}@127.0.0.1:{port}/{vhost}"


@pytest.mark.parametrize(
    ("changes", "kind", "words"),
    [
        (
            {"user": "guest:secret"},
            Misconfigured,
            "refuses the name or the password of user 'guest'",
        ),
        ({"vhost": "nowhere"}, Misconfigured, "no virtual host 'nowhere'"),
        ({"port": 1}, Unavailable, "127.0.0.1:1 does not answer"),
    ],
)
def test_check_says_in_one_sentence_why_it_cannot_connect(
    amqp_url: str, changes: dict[str, Any], kind: type[GemhooksError], words: str
) -> None:
    broker = RabbitBroker(changed(amqp_url, **changes))
    with pytest.raises(kind, match=words) as caught:
        broker.check()
    broker.close()
    assert "secret" not in str(caught.value)


def test_connections_that_are_used_up_are_an_outage_and_said_to_be_one(
    amqp_url: str, rabbitmq_node: Broker
) -> None:
    limits = f"/api/vhost-limits/{pika.URLParameters(amqp_url).virtual_host}/max-connections"
    rabbitmq_node.api("PUT", limits, {"value": 0})
    with pytest.raises(Unavailable, match=r"takes no connection: connection limit \(0\)"):
        check(amqp_url)
    rabbitmq_node.api("DELETE", limits)


def test_check_is_silent_where_all_is_well(broker: RabbitBroker) -> None:
    broker.check()


@pytest.mark.parametrize("url", ["http://u:secret@h/", "amqp://u:secret@h:port/"])
def test_a_broken_url_is_refused_without_being_repeated(url: str) -> None:
    with pytest.raises(Misconfigured) as caught:
        RabbitBroker(url)
    assert "secret" not in str(caught.value)


def test_publishing_while_never_connected_fails_at_once() -> None:
    broker = RabbitBroker("amqp://127.0.0.1:1/", publish_timeout=10 * PATIENCE)
    assert failure(broker, event()) == "disconnected"
    broker.close()


def test_check_of_a_port_that_never_answers_ends_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        broker = RabbitBroker(f"amqp://127.0.0.1:{server.getsockname()[1]}/")
        with pytest.raises(Unavailable):
            broker.check()
        broker.close()


def test_a_confirm_after_the_deadline_is_a_timeout_and_the_message_may_be_there(
    amqp_url: str,
) -> None:
    broker = RabbitBroker(amqp_url, publish_timeout=0, declare=[ALL])
    try:
        eventually(broker.is_ready)
        assert failure(broker, event()) == "timeout"
        assert take(consume(broker)).message == event()
        assert broker.is_ready()
    finally:
        broker.close()


def test_close_waits_for_the_copies_of_what_was_settled(
    broker: RabbitBroker, channel: BlockingChannel
) -> None:
    received = consume(broker, prefetch=SETTLED)
    publish(broker, *(event(number) for number in range(SETTLED)))
    for delivery in [take(received) for _ in range(SETTLED)]:
        delivery.dead(DeadLetter("no use"))
    broker.close(timeout=PATIENCE)
    # A quorum queue applies acks a moment after the connection has gone.
    eventually(lambda: channel.queue_declare(ALL.name, passive=True).method.message_count == 0)
    dead = {look(channel, ALL.dead_letters)[0].message_id for _ in range(SETTLED)}
    assert dead == {f"msg_{number}" for number in range(SETTLED)}


@pytest.fixture
def crash_broker(own_node: RabbitNode) -> Iterator[RabbitBroker]:
    """A broker on a node that is ours to stop, whatever was given to the run."""
    own_node.start()
    with own_node.vhost() as url:
        with opened(url) as broker:
            yield broker
        own_node.start()


@pytest.mark.parametrize("outage", [RabbitNode.stop, RabbitNode.kill])
def test_publisher_and_consumer_outlive_the_broker(
    crash_broker: RabbitBroker, own_node: RabbitNode, outage: Callable[[RabbitNode], None]
) -> None:
    received = consume(crash_broker)
    publish(crash_broker, event(1))
    held = take(received)
    outage(own_node)
    eventually(lambda: not crash_broker.is_ready())
    assert failure(crash_broker, event(2)) == "disconnected"
    own_node.start()
    eventually(crash_broker.is_ready)
    held.ack()  # its tag is stale: it must settle nobody else's message
    again = take(received)
    assert (again.message.id, again.redelivered) == ("msg_1", True)
    again.ack()
    publish(crash_broker, event(3))
    assert take(received).message.id == "msg_3"


def test_a_broker_without_memory_fails_publishing_as_blocked(
    crash_broker: RabbitBroker, own_node: RabbitNode
) -> None:
    with own_node.without_memory():
        assert failure(crash_broker, event()) == "blocked"
        assert failure(crash_broker, event()) == "blocked"
        assert not crash_broker.is_ready()
    eventually(crash_broker.is_ready)
    publish(crash_broker, event())


def test_acks_are_heard_while_publishing_is_blocked(
    crash_broker: RabbitBroker, own_node: RabbitNode
) -> None:
    received = consume(crash_broker)
    publish(crash_broker, *(event(number) for number in range(5)))
    deliveries = [take(received) for _ in range(5)]
    with own_node.without_memory():
        assert failure(crash_broker, event()) == "blocked"
        for delivery in deliveries:
            delivery.ack()
        queues = f"list_queues -p {crash_broker.vhost} --quiet name messages".split()
        eventually(lambda: f"{ALL.name}\t0" in own_node.ctl(*queues))


def test_what_is_to_come_later_is_not_tried_again_meanwhile_where_publishing_is_blocked(
    crash_broker: RabbitBroker, own_node: RabbitNode
) -> None:
    received = consume(crash_broker)
    publish(crash_broker, event())
    held = take(received)
    with own_node.without_memory(), capture_logs() as lines:
        assert failure(crash_broker, event(2, "nobody.waits")) == "blocked"
        held.later(held.message.next_attempt(), after=1)
        eventually(lambda: [line["event"] for line in lines].count("copy_failed") >= 2)
        assert_silent(received)
    again = take(received)
    assert (again.message.id, again.message.attempt) == ("msg_1", 2)


def test_a_queue_that_forgot_its_consumer_is_subscribed_again(
    amqp_url: str, channel: BlockingChannel
) -> None:
    broker = RabbitBroker(amqp_url, publish_timeout=PATIENCE, declare=[ALL], look_every=0.2)
    try:
        broker.declare([ALL])
        received: Received = queue.SimpleQueue()
        subscriber = broker.consume(ALL.name, received.put, prefetch=10)
        eventually(lambda: subscriber.is_consuming)
        for number in range(5):  # at once, so that the consumer is told nothing at times
            channel.queue_delete(ALL.name)
            broker.declare([ALL])
            publish(broker, event(number))
            take(received).ack()
        assert time.monotonic() - subscriber.alive_at < PATIENCE
    finally:
        broker.close()


def test_what_was_deleted_is_declared_again(broker: RabbitBroker, channel: BlockingChannel) -> None:
    received = consume(broker)
    channel.exchange_delete(topology.EVENTS)
    assert failure(broker, event(1)) == "disconnected"
    eventually(lambda: arrives(broker, received))


def arrives(broker: RabbitBroker, received: Received) -> bool:
    """Whether what is published now comes; what nobody is bound to is kept in unrouted."""
    if broker.publish(event(2)).exception(PATIENCE) is not None:
        return False
    with contextlib.suppress(queue.Empty):
        return received.get(timeout=SILENCE).message.id == "msg_2"
    return False


def test_a_consumer_whose_queue_is_deleted_declares_it_again(
    broker: RabbitBroker, channel: BlockingChannel
) -> None:
    received = consume(broker)
    publish(broker, event(1))
    take(received).ack()
    channel.queue_delete(ALL.name)
    eventually(lambda: arrives(broker, received))


def test_a_broker_whose_thread_died_says_so(amqp_url: str) -> None:
    broker = RabbitBroker(amqp_url)
    eventually(broker.is_ready)
    assert broker.is_alive()
    broker.loop.call_soon_threadsafe(broker.loop.stop)
    eventually(lambda: not broker.is_alive())
    broker.close()


def test_a_handler_longer_than_the_heartbeat_keeps_its_connection(amqp_url: str) -> None:
    with capture_logs() as lines:
        broker = RabbitBroker(amqp_url, publish_timeout=PATIENCE, heartbeat=2, declare=[ALL])
        broker.declare([ALL])
        received = consume(broker)
        publish(broker, event())
        delivery = take(received)
        time.sleep(7)  # the handler: longer than RabbitMQ waits for three heartbeats
        delivery.ack()
        assert_silent(received)
        broker.close()
    lost = [line for line in lines if line["event"] == "broker_lost"]
    assert [line["log_level"] for line in lost] == ["info", "info"]


def test_what_is_acknowledged_too_late_comes_again_and_so_does_the_rest(
    crash_broker: RabbitBroker, own_node: RabbitNode
) -> None:
    set_acknowledgement_timeout(own_node, milliseconds=1000, looked_at_every=300)
    try:
        received: Received = queue.SimpleQueue()
        subscriber = crash_broker.consume(ALL.name, received.put, prefetch=10)
        eventually(lambda: subscriber.is_consuming)
        # A channel has the time that was set when it was opened: only the first is in a hurry.
        set_acknowledgement_timeout(own_node, milliseconds=LONG, looked_at_every=300)
        publish(crash_broker, event(1))
        slow = take(received)
        again = take(received)  # its channel was closed, and a new one opened
        slow.ack()  # which must not acknowledge anything that came by the new one
        assert (again.message.id, again.redelivered) == ("msg_1", True)
        again.ack()
        publish(crash_broker, event(2))
        assert take(received).message.id == "msg_2"
    finally:
        set_acknowledgement_timeout(own_node, milliseconds=LONG, looked_at_every=60_000)


def set_acknowledgement_timeout(
    node: RabbitNode, *, milliseconds: int, looked_at_every: int
) -> None:
    node.ctl(
        "eval",
        f"application:set_env(rabbit, consumer_timeout, {milliseconds}),"
        f" application:set_env(rabbit, channel_tick_interval, {looked_at_every}).",
    )


def test_verifying_declares_nothing_and_names_what_is_missing(
    amqp_url: str, channel: BlockingChannel
) -> None:
    broker = RabbitBroker(amqp_url, verify=True)
    try:
        with pytest.raises(Misconfigured, match=ALL.name):
            broker.declare([ALL])
        assert {topology.EVENTS, topology.INTERACTIONS.name} <= broker.problems.keys()
        with pytest.raises(ChannelClosedByBroker, match="NOT_FOUND"):
            channel.queue_declare(topology.INTERACTIONS.name, passive=True)
    finally:
        broker.close()


def test_verifying_compares_arguments_where_the_management_api_is_known(
    amqp_url: str, channel: BlockingChannel, management_url: str
) -> None:
    broker = RabbitBroker(amqp_url, declare=[ALL])
    broker.declare([ALL])
    broker.close()
    channel.queue_declare(SOME.name, durable=True)
    channel.queue_declare(SOME.dead_letters, durable=True)
    url = management_url
    broker = RabbitBroker(
        amqp_url,
        publish_timeout=PATIENCE,
        verify=True,
        management_url=url,
        declare=[ALL, SOME],
    )
    try:
        eventually(broker.is_ready)
        assert set(broker.problems) == {SOME.name, SOME.dead_letters}
        assert re.search("x-queue-type=.* where 'quorum'", str(broker.problems[SOME.name]))
        assert SOME.dead_letters in broker.dead_letter_queues()
        publish(broker, event())
    finally:
        broker.close()


@pytest.fixture
def careful(amqp_url: str) -> Iterator[RabbitBroker]:
    broker = RabbitBroker(amqp_url, publish_timeout=PATIENCE, declare=[ALL], declare_every=0.1)
    broker.declare([ALL])
    yield broker
    broker.close()


def test_a_binding_that_nobody_misses_is_declared_again(
    careful: RabbitBroker, channel: BlockingChannel
) -> None:
    received = consume(careful)
    ((bound_to, pattern),) = ALL.bindings
    channel.queue_unbind(ALL.name, bound_to, pattern)

    def comes() -> bool:
        publish(careful, event())
        return not received.empty()

    eventually(comes, why="it is bound again")


def test_the_exchange_that_retries_return_by_is_declared_again(
    careful: RabbitBroker, channel: BlockingChannel
) -> None:
    received = consume(careful)
    channel.exchange_delete(topology.RETURN)

    def is_there() -> bool:
        try:
            channel.connection.channel().exchange_declare(topology.RETURN, passive=True)
        except ChannelClosedByBroker:
            return False
        channel.basic_publish(topology.RETURN, ALL.name, b"{}")
        return not received.empty()

    eventually(is_there, why="it is there, and the queue bound to it")


def test_what_failed_together_does_not_come_back_together(broker: RabbitBroker) -> None:
    received = consume(broker, prefetch=30)
    for number in range(30):
        publish(broker, replace(event(), id=f"msg_{number}"))
    for _ in range(30):
        delivery = take(received)
        delivery.later(delivery.message, after=30.0)

    rung = topology.retry_name(60)
    eventually(lambda: len(broker.browse(rung, 50)) == 30, why="all wait")
    assert len({message.waiting for message, _ in broker.browse(rung, 50)}) > 1


def test_what_a_stranger_put_into_a_queue_is_settled_like_any_other(
    broker: RabbitBroker, channel: BlockingChannel
) -> None:
    """No text of AMQP's needs to be UTF-8, and a header may be any number."""
    received = consume(broker)
    odd = pika.BasicProperties(
        message_id=b"\xff\xfe",  # type: ignore[arg-type]  # pika takes bytes, as the wire does
        type=b"\xe9",  # type: ignore[arg-type]  # idem
        content_type=b"\xe9",  # type: ignore[arg-type]  # idem
        headers={"gemhooks-first-at": 2**62, "gemhooks-waiting": 2**62, "gemhooks-attempt": 2**62},
    )
    channel.basic_publish("", ALL.name, b"odd", odd)
    channel.basic_publish("", ALL.name, b"1")
    channel.basic_publish("", ALL.name, b"2")

    first, *others = [take(received) for _ in range(3)]
    first.dead(DeadLetter("undecodable"))

    assert first.message.id
    assert len({each.message.key for each in (first, *others)}) == 3
    assert look(channel, ALL.dead_letters)[1] == b"odd"


class FarFuture(datetime):
    """A time in a header as those write it who take milliseconds for seconds."""

    def utctimetuple(self) -> time.struct_time:
        return time.struct_time((9999, 1, 1, 10**9, 0, 0, 0, 1, 0))


def test_a_time_that_pika_cannot_decode_holds_up_no_queue(
    broker: RabbitBroker, channel: BlockingChannel
) -> None:
    received = consume(broker)
    headers: dict[str, Any] = {"when": FarFuture(2020, 1, 1), "gemhooks-attempt": 2}
    channel.basic_publish("", ALL.name, b"odd", pika.BasicProperties(headers=headers))
    odd = take(received)
    publish(broker, event())
    good = take(received)

    assert (odd.message.body, odd.message.attempt, odd.redelivered) == (b"odd", 2, False)
    assert good.message.id == "msg_1"


def test_headers_nested_without_end_cost_no_connection() -> None:
    table = struct.pack(">I", 0)
    for _ in range(5000):
        table = struct.pack(">I", len(table) + 3) + b"\x01tF" + table
    headers = struct.pack(">I", len(table) + 7) + b"\x01tF" + table + b"\x01nt\x01"

    decoding.tolerate()
    decoded, end = data.decode_table(headers, 0)

    assert (decoded["n"], end) == (True, len(headers))
