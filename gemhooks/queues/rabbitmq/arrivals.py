"""A delivery out of its bytes: what pika would read in them, in a third to two thirds of the time.

A test compares it with pika's own.
"""

from functools import lru_cache
from struct import Struct
from typing import Any, NamedTuple

from pika import data as pikas

from gemhooks.queues.rabbitmq.layout import (
    APP_ID,
    BASIC,
    BODY,
    CLUSTER_ID,
    CONTENT_ENCODING,
    CONTENT_TYPE,
    CORRELATION_ID,
    DELIVERY_MODE,
    END,
    EXPIRATION,
    FIXED,
    HEAD,
    HEADER,
    HEADERS,
    MESSAGE_ID,
    METHOD,
    OVERHEAD,
    PRIORITY,
    REPLY_TO,
    TIMESTAMP,
    TYPE,
    USER_ID,
)

DELIVER = bytes.fromhex("003c003c")  # class 60, method 60
OURS = b"gemhooks-"  # in our messages these come last, and alike in most
NEVER = b"\0\0"
SHORT = 256  # bytes
RARE = CONTENT_ENCODING | PRIORITY | REPLY_TO | EXPIRATION | USER_ID | CLUSTER_ID | 0b11

head = Struct(">BHI").unpack_from
_header = Struct(">HHQH").unpack_from
_deliver = Struct(">QB").unpack_from
_long = Struct(">I").unpack_from
_int = Struct(">i").unpack_from
_large = Struct(">q").unpack_from
_time = Struct(">Q").unpack_from

Text = str | bytes  # bytes of what is no UTF-8, as pika gives them


class Arrival(NamedTuple):
    """What we ask of a delivery, by pika's names; None for what it does not say."""

    delivery_tag: int
    redelivered: bool
    exchange: Text
    routing_key: Text
    content_type: Text | None
    headers: dict[Any, Any] | None
    message_id: Text | None
    timestamp: int | None
    type: Text | None
    body: bytes


class NotOurs(Exception):
    """Left to pika."""


class Partial(Exception):
    """The rest has still to come."""


def start(consumer_tag: str) -> bytes:
    """What the payload of a delivery to that consumer begins with."""
    tag = consumer_tag.encode()
    return DELIVER + bytes((len(tag),)) + tag


def read(data: bytes, at: int, skipped: int) -> tuple[Arrival, int]:
    """The delivery whose first frame begins *at*, and where it ends.

    *skipped* bytes of its payload, see :func:`start`, are known. Raises NotOurs unless its frames
    lie together and hold what most do; Partial while they are not all there.
    """
    method, channel, header_at = _frame(data, at, METHOD)
    header, of_header, body_at = _frame(data, header_at, HEADER)
    of_class, _, size, flags = _header(header)
    body, of_body, end = _frame(data, body_at, BODY) if size else (b"", channel, body_at)
    if not channel == of_header == of_body or of_class != BASIC or len(body) != size:
        raise NotOurs
    tag, bits = _deliver(method, skipped)
    exchange, routing_key = _address(method[skipped + 9 :])
    redelivered = bits & 1 == 1
    properties = _properties(header, flags)
    return Arrival(tag, redelivered, exchange, routing_key, *properties, body=body), end


def _frame(data: bytes, at: int, wanted: int) -> tuple[bytes, int, int]:
    """A frame's payload, its channel and its end."""
    if len(data) < at + HEAD:
        raise Partial
    kind, channel, length = head(data, at)
    if kind != wanted:
        raise NotOurs
    end = at + length + OVERHEAD
    if len(data) < end:
        raise Partial
    if data[end - 1] != END:
        raise NotOurs
    return data[at + HEAD : end - 1], channel, end


@lru_cache(maxsize=512)  # they recur, and strangers choose some of them
def _address(encoded: bytes) -> tuple[Text, Text]:
    exchange, at = _short(encoded, 0)
    routing_key, at = _short(encoded, at)
    if at != len(encoded):
        raise NotOurs
    return exchange, routing_key


def _properties(
    header: bytes, flags: int
) -> tuple[Text | None, dict[Any, Any] | None, Text | None, int | None, Text | None]:
    """Those of an Arrival, in its order."""
    if flags & RARE:
        raise NotOurs
    kind = message_id = name = timestamp = headers = None
    at = FIXED
    if flags & CONTENT_TYPE:
        kind, at = _named(header, at)
    if flags & HEADERS:
        headers, at = _table(header, at)
    at += flags & DELIVERY_MODE and 1
    if flags & CORRELATION_ID:
        at += 1 + header[at]
    if flags & MESSAGE_ID:
        message_id, at = _short(header, at)
    if flags & TIMESTAMP:
        (timestamp,), at = _time(header, at), at + 8
    if flags & TYPE:
        name, at = _named(header, at)
    if flags & APP_ID:
        at += 1 + header[at]
    if at != len(header):
        raise NotOurs
    return kind, headers, message_id, timestamp, name


def _table(header: bytes, at: int) -> tuple[dict[Any, Any], int]:
    """Texts and integers by ourselves, a table with anything else by pika."""
    end = at + 4 + _long(header, at)[0]
    try:
        return _entries(header, at + 4, end, OURS), end
    except NotOurs:
        return pikas.decode_table(header, at)


def _entries(header: bytes, at: int, end: int, recurring: bytes) -> dict[Any, Any]:
    """From a name that begins so on, they are looked up among those of other messages."""
    found: dict[Any, Any] = {}
    while at < end:
        if header.startswith(recurring, at + 1) and end - at <= SHORT:
            return found | _known(header[at:end])
        name, at = _named(header, at)
        match header[at]:
            case 0x53:  # S
                at, size = at + 5, _long(header, at + 1)[0]
                found[name], at = _text(header[at : at + size]), at + size
            case 0x49:  # I
                (found[name],), at = _int(header, at + 1), at + 5
            case 0x6C:  # l
                (found[name],), at = _large(header, at + 1), at + 9
            case _:
                raise NotOurs
    if at != end:
        raise NotOurs
    return found


def _short(encoded: bytes, at: int) -> tuple[Text, int]:
    end = at + 1 + encoded[at]
    return _text(encoded[at + 1 : end]), end


def _named(encoded: bytes, at: int) -> tuple[Text, int]:
    """A short text that recurs."""
    end = at + 1 + encoded[at]
    return _recurring(encoded[at + 1 : end]), end


def _text(encoded: bytes) -> Text:
    try:
        return encoded.decode()
    except UnicodeDecodeError:
        return encoded


_recurring = lru_cache(maxsize=512)(_text)


@lru_cache(maxsize=512)
def _known(entries: bytes) -> dict[Any, Any]:
    return _entries(entries, 0, len(entries), NEVER)
