"""A basic.publish as bytes: as pika writes it, in a sixth of the time.

A test compares it with pika's own, bit by bit.
"""

from collections.abc import Mapping
from functools import lru_cache
from struct import Struct
from typing import NamedTuple

from pika.exceptions import ShortStringTooLong

from gemhooks.queues.rabbitmq.layout import (
    APP_ID,
    BASIC,
    BODY,
    CONTENT_TYPE,
    CORRELATION_ID,
    DELIVERY_MODE,
    END,
    FIXED,
    HEADER,
    HEADERS,
    MESSAGE_ID,
    METHOD,
    OVERHEAD,
    TIMESTAMP,
    TYPE,
)

LONGEST_SHORT = 255  # bytes
# All headers travel in one frame, and one over the broker's limit (128 KiB, 4 at least) closes the
# whole connection.
LONGEST_HEADER = 4096  # characters
PUBLISH = bytes.fromhex("003c00280000")  # class 60, method 40, and a field that means nothing
LAST = bytes((END,))
PERSISTENT = b"\x02"
# Headers of which most messages have the same: each is encoded once.
ALIKE = frozenset(
    {"cloudEvents_specversion", "cloudEvents_source", "cloudEvents_type"}
    | {f"gemhooks-{name}" for name in ("scheme", "trust", "source", "attempt")}
)

_frame = Struct(">BHI").pack
_header = Struct(">BHIHHQH").pack
_long = Struct(">I").pack
_text = Struct(">cI").pack
_int = Struct(">ci").pack
_large = Struct(">cq").pack
_time = Struct(">Q").pack


class Properties(NamedTuple):
    """Of a persistent message; empty ones are left out, but for the headers."""

    content_type: str
    headers: Mapping[str, str | int]
    correlation_id: str
    message_id: str
    timestamp: int
    type: str
    app_id: str

    def encode(self, longest: int = LONGEST_HEADER) -> tuple[int, bytes]:
        """Which of them there are, and their values; texts over *longest* stay at home."""
        flags = HEADERS | DELIVERY_MODE | CORRELATION_ID | MESSAGE_ID | TYPE | APP_ID
        kind = stamp = b""
        if self.content_type:
            flags, kind = flags | CONTENT_TYPE, _named(self.content_type)
        if self.timestamp:
            flags, stamp = flags | TIMESTAMP, _time(self.timestamp)
        headers = table(self.headers, longest)
        ids = _short(self.correlation_id) + _short(self.message_id)
        names = _named(self.type) + _named(self.app_id)
        return flags, b"".join((kind, headers, PERSISTENT, ids, stamp, names))


def publish(
    channel: int,
    address: tuple[str, str, bool],
    properties: Properties,
    body: bytes,
    *,
    longest: int,
) -> bytes:
    """The frames, none *longest*; ShortStringTooLong for a name that AMQP cannot hold.

    The *address* is an exchange, a routing key, and whether it must lead to a queue.
    """
    method = _method(channel, *address)
    flags, values = _fitting(properties, longest - OVERHEAD - FIXED)
    header = _header(HEADER, channel, FIXED + len(values), BASIC, 0, len(body), flags)
    if len(body) + OVERHEAD <= longest:
        parts = _body(channel, body) if body else b""
    else:
        step = longest - OVERHEAD
        parts = b"".join(_body(channel, body[at : at + step]) for at in range(0, len(body), step))
    return b"".join((method, header, values, LAST, parts))


def _fitting(properties: Properties, room: int) -> tuple[int, bytes]:
    """All of it in one frame; ValueError where even the short texts are too many for it."""
    flags, values = properties.encode()
    if len(values) > room:
        flags, values = properties.encode(room // 32)
    if len(values) > room:
        raise ValueError("the headers are longer than a frame")
    return flags, values


@lru_cache(maxsize=512)
def _method(channel: int, exchange: str, routing_key: str, mandatory: bool) -> bytes:  # noqa: FBT001 - of its address
    payload = PUBLISH + _short(exchange) + _short(routing_key) + bytes([mandatory])
    return _frame(METHOD, channel, len(payload)) + payload + LAST


def _body(channel: int, part: bytes) -> bytes:
    return b"".join((_frame(BODY, channel, len(part)), part, LAST))


def table(headers: Mapping[str, str | int], longest: int = LONGEST_HEADER) -> bytes:
    """Headers as AMQP has them; a text over *longest*, far too long for one, stays at home."""
    joined = b"".join(
        [
            _known_entry(name, value, longest) if name in ALIKE else _entry(name, value, longest)
            for name, value in headers.items()
        ]
    )
    return _long(len(joined)) + joined


def _entry(name: str, value: str | int, longest: int) -> bytes:
    """Empty for a text that stays at home."""
    if isinstance(value, int):
        return _named(name) + _number(value)
    if len(value) > longest:
        return b""
    text = value.encode("utf-8", "replace")
    return _named(name) + _text(b"S", len(text)) + text


_known_entry = lru_cache(maxsize=512)(_entry)  # strangers choose some, a type has 255 characters


def _number(value: int) -> bytes:
    fits = -(1 << 31) <= value < 1 << 31
    return _int(b"I", value) if fits else _large(b"l", value)


def _short(text: str) -> bytes:
    content = text.encode("utf-8", "replace")  # JSON may hold lone surrogates, UTF-8 cannot
    if len(content) > LONGEST_SHORT:
        raise ShortStringTooLong(content)
    return bytes((len(content),)) + content


@lru_cache(maxsize=512)  # names and types recur, and strangers choose some of them
def _named(text: str) -> bytes:
    return _short(text)
