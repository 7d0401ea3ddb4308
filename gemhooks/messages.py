"""What travels through a queue, and the protocols of those who carry and remember it."""

import hashlib
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol, Self

from gemhooks import topology

LONGEST_SHORTSTR = 255  # bytes; AMQP 0-9-1 allows no more in an id, a type or a routing key
UNKNOWN = "unknown"
CLOUDEVENTS_SOURCE = "//generativelanguage.googleapis.com"

Headers = Mapping[str, str | int]


class Source(StrEnum):
    """How we came to know of the event."""

    PUSH = "push"  # a webhook
    POLL = "poll"  # the reconciler
    REPLAY = "replay"  # a dead letter that a person sent again


@dataclass(frozen=True, slots=True)
class Message:
    """A verified webhook or a result of ours, its body untouched."""

    id: str
    type: str
    body: bytes
    timestamp: int = 0  # Unix seconds of the delivery attempt (webhook-timestamp)
    time: str = ""  # of the event itself, RFC 3339, when the body has one
    content_type: str = "application/json"
    scheme: str = ""  # how it was signed: v1, v1a, jwt; empty for what we made ourselves
    trust: str = "body"  # "hint": the signature does not cover the body, only type and id count
    source: Source = Source.PUSH
    attempt: int = 1  # which try of the handler comes next
    replay: int = 0  # number of the forced replay, part of the once-only key
    waiting: int = 0  # seconds that are left to wait after the present hop
    traceparent: str = ""

    @property
    def routing_key(self) -> str:
        """The event type where AMQP can carry it, else "unknown"."""
        return self.type if fits_shortstr(self.type) and self.type else UNKNOWN

    @property
    def key(self) -> str:
        """The id as AMQP and the ledger know it: at most 255 bytes, each replay apart."""
        return self._once(self.id)

    def key_of(self, subject: str) -> str:
        """As :attr:`key`, where several messages are about one *subject*."""
        return self._once(subject)

    def _once(self, text: str) -> str:
        short = text if fits_shortstr(text) else _digest(text)
        return f"{short}#{self.replay}" if self.replay else short

    def next_attempt(self) -> Self:
        return replace(self, attempt=self.attempt + 1)


def fits_shortstr(text: str) -> bool:
    return len(text.encode("utf-8", "surrogatepass")) <= LONGEST_SHORTSTR - 16  # room for "#replay"


def _digest(text: str) -> str:
    return "sha256:" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


# The names in the headers are public: see docs/decisions and the CHANGELOG's "Upgrading".
def headers_of(message: Message) -> dict[str, str | int]:
    """The headers a message travels with; empty ones stay at home."""
    headers: dict[str, str | int] = {
        "cloudEvents_specversion": "1.0",
        "cloudEvents_id": message.id,
        "cloudEvents_source": CLOUDEVENTS_SOURCE,
        "cloudEvents_type": message.type,
        "cloudEvents_time": message.time,
        "traceparent": message.traceparent,
        "gemhooks-scheme": message.scheme,
        "gemhooks-trust": message.trust,
        "gemhooks-source": message.source.value,
        "gemhooks-attempt": message.attempt,
        "gemhooks-replay": message.replay,
        "gemhooks-waiting": message.waiting,
    }
    return {name: value for name, value in headers.items() if value not in ("", 0)}


def from_headers(
    headers: Headers,
    body: bytes,
    *,
    message_id: str,
    message_type: str,
    timestamp: int,
    content_type: str,
) -> Message:
    """Read a message as it arrived; headers that others malformed count as absent."""
    return Message(
        id=_text(headers, "cloudEvents_id") or message_id,
        type=_text(headers, "cloudEvents_type") or message_type,
        body=body,
        timestamp=timestamp,
        time=_text(headers, "cloudEvents_time"),
        content_type=content_type,
        scheme=_text(headers, "gemhooks-scheme"),
        trust=_text(headers, "gemhooks-trust") or "body",
        source=_source(_text(headers, "gemhooks-source")),
        attempt=max(1, _number(headers, "gemhooks-attempt")),
        replay=_number(headers, "gemhooks-replay"),
        waiting=_number(headers, "gemhooks-waiting"),
        traceparent=_text(headers, "traceparent"),
    )


def _text(headers: Headers, name: str) -> str:
    value = headers.get(name, "")
    return value if isinstance(value, str) else ""


def _number(headers: Headers, name: str) -> int:
    value = headers.get(name, 0)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _source(text: str) -> Source:
    try:
        return Source(text)
    except ValueError:
        return Source.PUSH


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Why a message was given up."""

    reason: str
    error_type: str = ""
    error_message: str = ""  # redacted, at most 300 characters

    def headers(self) -> dict[str, str | int]:
        named = {
            "gemhooks-dead-reason": self.reason[:300],
            "gemhooks-dead-error-type": self.error_type,
            "gemhooks-dead-error-message": self.error_message[:300],
        }
        return {name: value for name, value in named.items() if value}


class Publisher(Protocol):
    def publish(self, message: Message, *, exchange: str = topology.EVENTS) -> Future[None]:
        """Hand *message* to *exchange*; never blocks.

        The future ends with None once a durable queue has the message, or with
        :class:`~gemhooks.errors.PublishFailed`, in bounded time.
        """
        ...


class Delivery(Protocol):
    """One message in a worker's hands, to be settled exactly once.

    Every way to settle it returns at once; the message leaves the queue only after
    the copy, where there is one, was confirmed.
    """

    @property
    def message(self) -> Message: ...
    @property
    def redelivered(self) -> bool:
        """True when somebody may have begun to handle it before."""
        ...

    def ack(self) -> None:
        """It is handled."""
        ...

    def later(self, message: Message, *, after: float) -> None:
        """Let *message*, in place of this one, come back in *after* seconds."""
        ...

    def dead(self, letter: DeadLetter) -> None:
        """Move it to the dead letters of its queue."""
        ...

    def give_back(self) -> None:
        """Let another worker have it, untouched."""
        ...


OnDelivery = Callable[[Delivery], None]


class Subscriber(Protocol):
    """A running consumer of one queue."""

    def stop(self) -> None:
        """Take no more; what was taken can still be settled."""
        ...


class Broker(Protocol):
    """A place with queues: RabbitMQ, or a file on this machine."""

    @property
    def publisher(self) -> Publisher: ...
    def declare(self, queues: list[topology.Queue]) -> None:
        """See that exchanges, queues and bindings exist; Misconfigured where theirs differ."""
        ...

    def consume(self, queue: str, on_delivery: OnDelivery, *, prefetch: int) -> Subscriber:
        """Call *on_delivery* for each message of *queue*, at most *prefetch* unsettled at once.

        It is called on the broker's own thread and must not block.
        """
        ...

    def browse(self, queue: str, limit: int) -> list[tuple[Message, Headers]]:
        """The first *limit* messages and their headers, without using them up."""
        ...

    def check(self) -> None:
        """Raise Misconfigured or Unavailable, in bounded time, where it can't be used."""
        ...

    def is_ready(self) -> bool:
        """True while messages can be published and consumed."""
        ...

    def close(self, *, timeout: float = 5.0) -> None:
        """Send out what was settled, then disconnect; what is unsettled goes back."""
        ...


class Claim(StrEnum):
    """What the ledger answers to who wants to handle a message."""

    GRANTED = "granted"
    DONE = "done"  # handled before: acknowledge the copy
    BUSY = "busy"  # somebody handles it right now: come back later


@dataclass(frozen=True, slots=True)
class Claimed:
    """The ledger's answer; *starts* counts how often a redelivered message was begun."""

    claim: Claim
    starts: int = 0


class Ledger(Protocol):
    """What was handled. All methods raise LedgerUnavailable while the database is away."""

    def claim(self, queue: str, key: str, *, redelivered: bool) -> Claimed:
        """Take (queue, key) for this process; the claim is kept alive until done or released."""
        ...

    def done(self, queue: str, key: str) -> None:
        """It was handled; a later claim is answered DONE."""
        ...

    def release(self, queue: str, key: str) -> None:
        """It was not handled; anybody may claim it again."""
        ...
