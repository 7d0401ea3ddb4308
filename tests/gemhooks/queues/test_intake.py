"""What goes past pika is what pika would read, and it gets all the rest."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from itertools import chain, pairwise
from random import Random
from typing import Any

import pika
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pika import frame, spec
from pika.channel import ContentFrameAssembler

from gemhooks import messages
from gemhooks.messages import Message
from gemhooks.queues.rabbitmq import arrivals, decoding, rpc
from gemhooks.queues.rabbitmq.arrivals import Arrival
from gemhooks.queues.rabbitmq.intake import Intake

OURS, TAG = (1, 2), "ctag1.ä"  # the channels whose consumers have takers
SEEN = ("content_type", "headers", "message_id", "timestamp", "type")
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
PLAIN = TEXT | st.integers(-(1 << 63), (1 << 63) - 1)
TIMES = st.integers(0, 1 << 32).map(lambda at: datetime.fromtimestamp(at, UTC))


def tables(values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(TEXT, values, max_size=4)


LEAVES = PLAIN | st.booleans() | st.none() | st.binary(max_size=5) | TIMES | st.just(Decimal("1.5"))
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | tables(inner), max_leaves=4
)


PROPERTIES = st.builds(
    pika.BasicProperties,
    content_type=st.none() | TEXT,
    content_encoding=st.sampled_from([None, None, None, "gzip"]),
    headers=st.none() | tables(PLAIN) | tables(VALUES),
    delivery_mode=st.sampled_from([None, 1, 2]),
    priority=st.sampled_from([None, None, None, 3]),
    correlation_id=st.none() | TEXT,
    message_id=st.none() | TEXT,
    timestamp=st.none() | st.integers(0, (1 << 64) - 1),
    type=st.none() | TEXT,
    app_id=st.none() | TEXT,
    user_id=st.sampled_from([None, None, None, "guest"]),
)
DELIVERED = st.builds(
    spec.Basic.Deliver,
    consumer_tag=st.sampled_from([TAG, TAG, TAG, "another"]),
    delivery_tag=st.integers(0, (1 << 64) - 1),
    redelivered=st.booleans(),
    exchange=TEXT,
    routing_key=TEXT,
)


def written(
    channel: int, method: spec.Basic.Deliver, properties: pika.BasicProperties, body: list[bytes]
) -> list[bytes]:
    """The frames of one delivery."""
    header = frame.Header(channel, len(b"".join(body)), properties)
    parts = [frame.Body(channel, part) for part in body]
    return [each.marshal() for each in (frame.Method(channel, method), header, *parts)]


def delivery(channel: int) -> st.SearchStrategy[list[bytes]]:
    bodies = st.lists(st.binary(min_size=1, max_size=30), max_size=1) | st.lists(
        st.binary(min_size=1), max_size=3
    )
    return st.builds(written, st.just(channel), DELIVERED, PROPERTIES, bodies)


def something_else(channel: int) -> st.SearchStrategy[list[bytes]]:
    methods = [spec.Basic.Ack(7), spec.Basic.CancelOk(TAG), spec.Channel.CloseOk()]
    others = [frame.Method(channel, method).marshal() for method in methods]
    return st.sampled_from([[each] for each in (*others, frame.Heartbeat().marshal())])


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    """Frames of several channels, those of each in their order."""
    queues = [
        [*chain(*draw(st.lists(delivery(channel) | something_else(channel), max_size=3)))]
        for channel in (*OURS, 3)
    ]
    random, found = Random(draw(st.integers())), b""
    keeps = draw(st.sampled_from([0.0, 0.8, 1.0]))  # how often a channel goes on
    while queues := [each for each in queues if each]:
        at = random.randrange(len(queues))
        found += queues[at].pop(0)
        while queues[at] and random.random() < keeps:
            found += queues[at].pop(0)
    return found


class Pika:
    """Reads as pika's connection does, and notes what it read."""

    def __init__(self, seen: list[Any]) -> None:
        self.seen, self.read = seen, 0
        self._buffer = b""
        self._assemblers = {channel: ContentFrameAssembler() for channel in range(1 << 8)}

    def feed(self, data: bytes) -> None:
        self._buffer += data
        while True:
            size, found = frame.decode_frame(self._buffer)
            if not size:
                return
            self._buffer, self.read = self._buffer[size:], self.read + size
            self._note(found)

    def _note(self, found: Any) -> None:
        if isinstance(found, frame.Heartbeat) or (
            isinstance(found, frame.Method) and not spec.has_content(found.method.INDEX)
        ):
            self.seen.append(repr(found))
        elif whole := self._assemblers[found.channel_number & 0xFF].process(found):
            method, header, body = whole
            properties = [getattr(header.properties, name) for name in SEEN]
            self.seen.append(
                (found.channel_number, *vars(method.method).values(), properties, body)
            )


def by_pika(data: bytes) -> list[Any]:
    seen: list[Any] = []
    _fed(Pika(seen).feed, [data], seen)
    return seen


def by_us(pieces: list[bytes]) -> tuple[list[Any], int, int]:
    """What was seen, and the bytes that pika and the takers got."""
    seen: list[Any] = []
    taken: list[int] = []
    pikas = Pika(seen)
    takers = {each: (arrivals.start(TAG), _noting(each, seen)) for each in OURS}
    _fed(Intake(takers, rest=pikas.feed, taken=taken.append).feed, pieces, seen)
    return seen, pikas.read, sum(taken)


def _noting(channel: int, seen: list[Any]) -> Callable[[Arrival], None]:
    def note(got: Arrival) -> None:
        method = TAG, got.delivery_tag, got.redelivered, got.exchange, got.routing_key
        seen.append((channel, *method, [getattr(got, name) for name in SEEN], got.body))

    return note


def _fed(feed: Callable[[bytes], None], pieces: list[bytes], seen: list[Any]) -> None:
    try:
        for piece in pieces:
            feed(piece)
    except Exception as error:
        seen.append(type(error))


def cut(data: bytes, places: list[int]) -> list[bytes]:
    ends = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[start:end] for start, end in pairwise(ends)]


@pytest.fixture(autouse=True, scope="module")
def tolerant() -> None:
    decoding.tolerate()


@settings(max_examples=150)
@given(streams(), st.lists(st.integers(0, 1 << 16), max_size=8))
def test_what_is_seen_is_what_pika_would_see_however_it_comes(data: bytes, cuts: list[int]) -> None:
    seen, read, taken = by_us(cut(data, cuts))

    assert seen == by_pika(data)
    assert read + taken == len(data)


@settings(max_examples=20)
@given(streams())
def test_bytes_may_come_one_by_one(data: bytes) -> None:
    assert by_us([bytes([each]) for each in data])[0] == by_pika(data)


@settings(max_examples=60)
@given(delivery(1), st.integers(0, 1 << 16), st.integers(1, 255))
def test_a_spoilt_delivery_is_what_pika_makes_of_it(
    frames: list[bytes], place: int, change: int
) -> None:
    spoilt = bytearray(b"".join(frames))
    spoilt[place % len(spoilt)] ^= change

    assert by_us([bytes(spoilt)])[0] == by_pika(bytes(spoilt))


def ours(body: bytes = b"{}", **more: Any) -> bytes:
    message = Message("msg_1", "batch.succeeded", body, 5, "2026-01-01T00:00:00Z", first_at=1 << 33)
    headers = messages.headers_of(message)
    names: Any = {"content_type": "application/json", "type": message.type, "app_id": "gemhooks"}
    properties = pika.BasicProperties(
        headers=headers,
        delivery_mode=2,
        correlation_id="1",
        message_id="m",
        timestamp=5,
        **names,
        **more,
    )
    method = spec.Basic.Deliver(TAG, 1, exchange="gemhooks.events", routing_key=message.type)
    return b"".join(written(1, method, properties, [body] if body else []))


@pytest.mark.parametrize("body", [b"", b"{}", bytes(70_000)])
def test_what_we_publish_goes_past_pika(body: bytes) -> None:
    seen, read, _ = by_us(cut(ours(body), [3, 100, 50_000]))

    assert len(seen) == 1
    assert read == 0
    assert seen == by_pika(ours(body))


@pytest.mark.parametrize("change", [1, 4, 255])
def test_whatever_byte_of_ours_is_spoilt_pika_and_we_agree(change: int) -> None:
    good = ours()
    for place in range(len(good)):
        spoilt = bytearray(good)
        spoilt[place] ^= change

        assert by_us([bytes(spoilt)])[0] == by_pika(bytes(spoilt)), place


def test_a_consumer_whose_end_comes_first_gets_no_delivery_behind_it() -> None:
    seen: list[Any] = []
    takers = {1: (arrivals.start(TAG), _noting(1, seen))}
    passed: list[bytes] = []

    def rest(data: bytes) -> None:
        passed.append(data)
        takers.clear()

    end = frame.Method(1, spec.Basic.Cancel(TAG)).marshal()
    Intake(takers, rest=rest, taken=lambda _: None).feed(end + ours())

    assert b"".join(passed) == end + ours()
    assert seen == []


def test_a_fault_of_a_taker_is_no_reason_to_deliver_again() -> None:
    def fail(_: Arrival) -> None:
        raise IndexError

    passed: list[bytes] = []
    intake = Intake({1: (arrivals.start(TAG), fail)}, rest=passed.append, taken=lambda _: None)

    with pytest.raises(IndexError):
        intake.feed(ours())
    assert passed == []


def test_what_is_no_frame_is_passed_on_at_once() -> None:
    passed: list[bytes] = []
    intake = Intake({}, rest=passed.append, taken=lambda _: None)

    for piece in (b"AMQP\0\0", b"\x09\x01"):
        intake.feed(piece)

    assert b"".join(passed) == b"AMQP\0\0\x09\x01"


def test_what_goes_past_pika_proves_to_it_that_the_broker_lives(amqp_url: str) -> None:
    """Else its heartbeat checker ends a connection on which only deliveries come."""
    arrived, received = asyncio.run(delivered(amqp_url, [b"x" * 50_000] * 5))

    assert arrived == 5
    assert received > 5 * 50_000


async def delivered(url: str, bodies: list[bytes]) -> tuple[int, int]:
    """How many deliveries went past pika, and how many bytes it holds for received."""
    connection = await rpc.connect(pika.URLParameters(url), timeout=30, on_close=lambda _: None)
    channel = await rpc.open_channel(connection)
    await rpc.ask(
        channel, lambda done: channel.queue_declare("heard", exclusive=True, callback=done)
    )
    taken: asyncio.Queue[Arrival] = asyncio.Queue()
    tag = channel.basic_consume("heard", lambda *_: None)
    connection.divert(channel.channel_number, tag, taken.put_nowait)
    for body in bodies:
        channel.basic_publish("", "heard", body)
    async with asyncio.timeout(30):
        arrived = [await taken.get() for _ in bodies]
    received = connection.bytes_received
    await connection.end()
    return len(arrived), received
