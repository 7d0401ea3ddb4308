"""What travels through a queue, and the protocols of those who carry and remember it."""

import hashlib
import socket
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Protocol, Self

from msgspec import Struct
from msgspec.structs import replace

from gemhooks import topology
from gemhooks.errors import PublishFailed

LARGEST = {"gemhooks-waiting": 86400, "gemhooks-first-at": 253_402_300_799}  # a day; year 9999
MOST = 1_000_000  # of any other number in a header
LONGEST_SHORTSTR = 255  # bytes; AMQP 0-9-1 allows no more in an id, a type or a routing key
UNKNOWN = "unknown"
CLOUDEVENTS_SOURCE = "//generativelanguage.googleapis.com"

Headers = Mapping[str, str | int]


class Source(StrEnum):
    """How we came to know of the event."""

    PUSH = "push"  # a webhook
    POLL = "poll"  # the reconciler
    REPLAY = "replay"  # a dead letter that a person sent again


SOURCES = {each.value: each for each in Source}


class Message(Struct, frozen=True):  # made in a tenth of a dataclass's time
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
    first_at: int = 0  # Unix seconds of the first try that failed
    traceparent: str = ""

    @property
    def routing_key(self) -> str:
        """The event type where AMQP can carry it, else "unknown"."""
        return self.type if fits_shortstr(self.type) and self.type else UNKNOWN

    @property
    def is_hint(self) -> bool:
        """Its signature does not cover its body: only type and id count."""
        return self.trust == "hint"

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

    def age(self, now: float) -> float | None:
        """Seconds since the event, or since its delivery where it has no date; None without any."""
        if self.time:
            with suppress(ValueError):
                return max(0.0, now - datetime.fromisoformat(self.time).timestamp())
        return max(0.0, now - self.timestamp) if self.timestamp else None

    def next_attempt(self, *, now: int = 0) -> Self:
        """The same message for one more try; *now*, in Unix seconds, is when this one failed."""
        first_at = self.first_at or now
        return replace(self, attempt=self.attempt + 1, first_at=first_at)

    def afresh(self, *, replay: int) -> Self:
        """As it first came, for a person who sends it again; *replay* is a part of its key."""
        source = Source.REPLAY
        return replace(self, source=source, attempt=1, waiting=0, first_at=0, replay=replay)


def fits_shortstr(text: str) -> bool:
    room = LONGEST_SHORTSTR - 16  # for "#replay"
    return len(text) * 4 <= room or len(text.encode("utf-8", "surrogatepass")) <= room


def _digest(text: str) -> str:
    return _digest_of(text.encode("utf-8", "surrogatepass"))


def _digest_of(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()


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
        "gemhooks-first-at": message.first_at,
    }
    return {name: value for name, value in headers.items() if value}


def from_headers(
    headers: Mapping[str, object],
    body: bytes,
    *,
    message_id: str,
    message_type: str,
    timestamp: int,
    content_type: str,
) -> Message:
    """Read a message as it arrived; headers that others malformed count as absent.

    Of one without an id, the body is the id: else all of them would be copies of the first.
    """
    return Message(
        id=_text(headers, "cloudEvents_id") or message_id or _digest_of(body),
        type=_text(headers, "cloudEvents_type") or message_type,
        body=body,
        timestamp=timestamp,
        time=_text(headers, "cloudEvents_time"),
        content_type=content_type,
        scheme=_text(headers, "gemhooks-scheme"),
        trust=_text(headers, "gemhooks-trust") or "body",
        source=SOURCES.get(_text(headers, "gemhooks-source"), Source.PUSH),
        attempt=max(1, _number(headers, "gemhooks-attempt")),
        replay=_number(headers, "gemhooks-replay"),
        waiting=_number(headers, "gemhooks-waiting"),
        first_at=_number(headers, "gemhooks-first-at"),
        traceparent=_text(headers, "traceparent"),
    )


def _text(headers: Mapping[str, object], name: str) -> str:
    value = headers.get(name, "")
    return value if isinstance(value, str) else ""


def _number(headers: Mapping[str, object], name: str) -> int:
    value = headers.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        return 0
    return value if 0 < value <= LARGEST.get(name, MOST) else 0


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Why a message was given up."""

    reason: str
    error_type: str = ""
    error_message: str = ""  # redacted, at most 300 characters
    # Starts that never ended, where somebody counted them: the message itself knows of ends only.
    starts: int = 0
    first_at: float = 0.0  # Unix seconds

    def headers(self, message: Message, queue: str) -> dict[str, str | int]:
        """What the dead letter of *message* carries beside its own headers."""
        now = datetime.now(UTC)
        first_at = message.first_at or self.first_at
        first = datetime.fromtimestamp(first_at, UTC) if first_at else now
        named: dict[str, str | int] = {
            "gemhooks-dead-reason": self.reason[:300],
            "gemhooks-dead-error-type": self.error_type,
            "gemhooks-dead-error-message": self.error_message[:300],
            "gemhooks-dead-queue": queue,
            "gemhooks-dead-attempts": message.attempt + max(0, self.starts - 1),
            "gemhooks-dead-first-at": first.isoformat(timespec="seconds"),
            "gemhooks-dead-at": now.isoformat(timespec="seconds"),
            "gemhooks-dead-host": socket.gethostname(),
        }
        return {name: value for name, value in named.items() if value}


class Publisher(Protocol):
    def publish(self, message: Message, *, exchange: str = topology.EVENTS) -> Future[None]:
        """Hand *message* to *exchange*; never blocks.

        The future ends with None once a durable queue has the message, or with
        :class:`~gemhooks.errors.PublishFailed`, in bounded time.
        """
        ...


CONFIRM_TIMEOUT = 30.0  # seconds; the publisher itself gives up long before


def confirm(future: Future[None], *, timeout: float = CONFIRM_TIMEOUT) -> None:
    """Wait until a publish ended; PublishFailed where it did not end well."""
    try:
        future.result(timeout)
    except (TimeoutError, CancelledError):
        raise PublishFailed("timeout") from None


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

    @property
    def is_consuming(self) -> bool:
        """True while the queue's messages really come to us."""
        ...

    @property
    def alive_at(self) -> float:
        """When that was last proved; by time.monotonic()."""
        ...

    def stop(self) -> None:
        """Take no more; what was taken can still be settled."""
        ...


@dataclass(frozen=True, slots=True)
class Seen:
    """A message that lies in a queue, and its headers, those of a dead letter included."""

    message: Message
    headers: Headers
    place: int  # by which the broker finds it again


class Look(Protocol):
    """A walk through a queue that uses nothing up: what is not removed is there afterwards."""

    def __iter__(self) -> Iterator[Seen]:
        """From the oldest to the newest, those that come meanwhile included.

        Unavailable where the broker goes away.
        """
        ...

    def __len__(self) -> int:
        """How many messages there were at the start."""
        ...

    def remove(self, seen: Seen) -> None:
        """Take it out of the queue, now or at the latest when the look is closed."""
        ...

    def close(self) -> None: ...


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

    def send(self, queue: str, message: Message) -> Future[None]:
        """Hand *message* to one queue only; the future ends as that of a publish."""
        ...

    def look(self, queue: str) -> Look:
        """Walk through the messages that wait in *queue*; Misconfigured where there is none.

        While it is open, RabbitMQ shows them to nobody else.
        """
        ...

    def browse(self, queue: str, limit: int) -> list[tuple[Message, Headers]]:
        """The first *limit* messages and their headers: a short look."""
        ...

    def dead_letter_queues(self) -> list[str]:
        """Those that are known, in the order of their names."""
        ...

    def check(self) -> None:
        """Raise Misconfigured or Unavailable, in bounded time, where it can't be used."""
        ...

    def is_ready(self) -> bool:
        """True while messages can be published and consumed."""
        ...

    def is_alive(self) -> bool:
        """False where only a new process helps; an outage is not that."""
        ...

    def close(self, *, timeout: float = 5.0) -> None:
        """Send out what was settled, then disconnect; what is unsettled goes back."""
        ...


class Claim(StrEnum):
    """What the ledger answers to who wants to handle a message."""

    GRANTED = "granted"
    DONE = "done"  # handled before: acknowledge the copy
    BUSY = "busy"  # somebody handles it right now: come back later
    UNKNOWN = "unknown"  # it may have killed a process, and nobody counts: the ledger is off


@dataclass(frozen=True, slots=True)
class Claimed:
    """The ledger's answer; *starts* counts how often a redelivered message was begun, the present
    start included, and *first_at*, in Unix seconds, is when it was claimed for the first time."""

    claim: Claim
    starts: int = 0
    first_at: float = field(default=0.0, compare=False)


class Ledger(Protocol):
    """What was handled. All methods raise LedgerUnavailable while the database is away."""

    def claim(self, queue: str, key: str, *, redelivered: bool) -> Claimed:
        """Take (queue, key) for this process; the claim is kept alive until done or released."""
        ...

    def claim_new(self, queue: str, *keys: str) -> list[Claimed | None]:
        """Claim many at once, ahead of their handlers: that is not counted as a start.

        An answer for each: GRANTED, DONE, or None where :meth:`claim` must decide.
        """
        ...

    def holds(self, queue: str, key: str) -> bool:
        """Whether a claim made ahead is ours still; who slept through its lease may have lost it.

        While the lease surely runs, that asks nobody.
        """
        ...

    def done(self, queue: str, *keys: str) -> None:
        """They were handled; a later claim is answered DONE."""
        ...

    def release(self, queue: str, *keys: str, ended: bool = True) -> None:
        """They were not handled; anybody may claim them again.

        Their starts count no more, for their handlers ended; *ended* is False where they never
        began.
        """
        ...
