"""A message as AMQP carries it: properties and headers, there and back."""

from msgspec import Struct
from pika import BasicProperties
from pika.spec import Basic

from gemhooks import messages, topology
from gemhooks.messages import Message
from gemhooks.queues.rabbitmq import frames
from gemhooks.queues.rabbitmq.arrivals import Arrival

APP_ID = "gemhooks"
LARGEST_TIMESTAMP = 2**63 - 1

Headers = messages.Headers


class Parcel(Struct, frozen=True):
    """What one basic.publish needs."""

    exchange: str
    routing_key: str
    body: bytes
    mandatory: bool
    message: Message
    more_headers: Headers = {}

    def encode(self, channel: int, correlation_id: str, *, longest: int) -> bytes:
        """A basic.publish in frames of *longest* bytes at most."""
        address = self.exchange, self.routing_key, self.mandatory
        properties = self.properties(correlation_id)
        return frames.publish(channel, address, properties, self.body, longest=longest)

    def properties(self, correlation_id: str) -> frames.Properties:
        message, kind = self.message, self.message.content_type
        headers = messages.headers_of(message)
        if self.more_headers:
            headers |= self.more_headers
        return frames.Properties(
            content_type=kind if messages.fits_shortstr(kind) else "",
            headers=headers,
            correlation_id=correlation_id,
            message_id=message.key,
            timestamp=_timestamp(message.timestamp),
            type=message.routing_key,
            app_id=APP_ID,
        )


def event(message: Message, exchange: str) -> Parcel:
    # Results are stored before they are announced, so nobody needs to listen.
    mandatory = exchange != topology.RESULTS
    return Parcel(exchange, message.routing_key, message.body, mandatory, message)


def addressed(message: Message, exchange: str, queue: str, more: Headers | None = None) -> Parcel:
    """A parcel for one queue, whatever the type of the message is."""
    return Parcel(exchange, queue, message.body, True, message, more or {})  # noqa: FBT003


def read(
    method: Basic.Deliver | Basic.GetOk | Arrival,
    properties: BasicProperties | Arrival,
    body: bytes,
) -> Message:
    return messages.from_headers(
        properties.headers or {},
        body,
        message_id=_read(properties.message_id),
        message_type=_read(properties.type) or _type_from(method),
        timestamp=properties.timestamp or 0,
        content_type=_read(properties.content_type) or "application/octet-stream",
    )


def headers_of(properties: BasicProperties | Arrival) -> dict[str, str | int]:
    """Those we can read; other publishers and the broker itself send more kinds."""
    headers = properties.headers or {}
    return {name: value for name, value in headers.items() if isinstance(value, (str, int))}


def _read(value: object) -> str:
    """A short text; pika gives the bytes of one that is no UTF-8, which AMQP does not forbid."""
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    return text if isinstance(text, str) else ""


def _type_from(method: Basic.Deliver | Basic.GetOk | Arrival) -> str:
    """Publishers other than we may leave the type out; on our topic exchange the key tells it."""
    return _read(method.routing_key) if method.exchange == topology.EVENTS else ""


def _timestamp(seconds: int) -> int:
    return seconds if 0 < seconds <= LARGEST_TIMESTAMP else 0
