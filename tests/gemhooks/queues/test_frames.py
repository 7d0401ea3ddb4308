"""What we write of a basic.publish is what pika would write."""

import struct
from typing import Any

import pika
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pika import frame, spec
from pika.exceptions import ShortStringTooLong

from gemhooks.queues.rabbitmq import frames

SHORT = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
NAME = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60)
NUMBER = st.integers(-(1 << 63), (1 << 63) - 1)
PROPERTIES = st.fixed_dictionaries(
    {
        "content_type": SHORT,
        "headers": st.dictionaries(
            NAME | st.sampled_from(sorted(frames.ALIKE)),
            st.text("aä\0👩", max_size=200) | NUMBER,
            max_size=12,
        ),
        "correlation_id": SHORT,
        "message_id": SHORT,
        "timestamp": st.integers(0, (1 << 63) - 1),
        "type": SHORT,
        "app_id": SHORT,
    }
)


def by_pika(
    channel: int, address: tuple[str, str, bool], given: dict[str, Any], body: bytes, longest: int
) -> bytes:
    exchange, routing_key, mandatory = address
    left_out = {name: given[name] or None for name in ("content_type", "timestamp")}
    properties = pika.BasicProperties(delivery_mode=2, **{**given, **left_out})
    method = spec.Basic.Publish(exchange=exchange, routing_key=routing_key, mandatory=mandatory)
    parts = [body[at : at + longest - 8] for at in range(0, len(body), longest - 8)]
    found = [frame.Method(channel, method), frame.Header(channel, len(body), properties)]
    written = [each.marshal() for each in found]
    return b"".join([*written, *(frame.Body(channel, part).marshal() for part in parts)])


@settings(max_examples=300)
@given(
    channel=st.integers(1, 65535),
    address=st.tuples(SHORT, SHORT, st.booleans()),
    given=PROPERTIES,
    longest=st.integers(16384, 16500),  # all headers fit
    size=st.tuples(st.integers(0, 3), st.integers(-1, 1)),  # frames, and bytes
)
def test_a_publish_is_written_as_pika_writes_it(
    channel: int,
    address: tuple[str, str, bool],
    given: dict[str, Any],
    longest: int,
    size: tuple[int, int],
) -> None:
    body = bytes(max(0, size[0] * (longest - 8) + size[1]))
    properties = frames.Properties(**given)

    written = frames.publish(channel, address, properties, body, longest=longest)

    assert written == by_pika(channel, address, given, body, longest)


def test_a_name_that_amqp_cannot_hold_is_refused() -> None:
    with pytest.raises(ShortStringTooLong):
        frames.table({"x" * 256: 1})


def test_what_is_the_same_in_most_messages_stays_at_home_where_it_is_too_long_too() -> None:
    headers = {"cloudEvents_type": "x" * 11, "gemhooks-scheme": "v1"}

    assert frames.table(headers, longest=10) == frames.table({"gemhooks-scheme": "v1"})
    assert frames.table(headers, longest=11) == frames.table(headers)


def test_a_number_beyond_64_bits_is_refused() -> None:
    with pytest.raises(struct.error):
        frames.table({"x": 1 << 63})


def test_headers_that_one_frame_cannot_hold_are_refused_before_they_cost_the_connection() -> None:
    many: dict[str, str | int] = {f"x{number}": number for number in range(1000)}
    properties = frames.Properties("", many, "1", "msg_1", 0, "test.done", "gemhooks")
    with pytest.raises(ValueError, match="longer than a frame"):
        frames.publish(1, ("", "q", True), properties, b"", longest=4096)
