"""Run consumers on one message as a worker would, without broker or ledger."""

from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry

from gemhooks import topology
from gemhooks.consumers import Consumers, Subscription
from gemhooks.events import parse
from gemhooks.messages import Claim, Claimed, DeadLetter, Message
from gemhooks.metrics import WorkerMetrics
from gemhooks.runner import Runner
from gemhooks.testing.publishers import MemoryPublisher

SCHEDULE = (5.0, 30.0, 120.0, 600.0, 3600.0, 21600.0)  # seconds; as GEMHOOKS_RETRY_SCHEDULE's


@dataclass(frozen=True, slots=True)
class Ended:
    """What became of a message in one queue."""

    queue: str
    published: list[Message]  # what the handler published
    retry_after: float | None = None  # seconds until it is tried again, if it is
    dead_letter: DeadLetter | None = None  # why it was given up, if it was

    @property
    def is_done(self) -> bool:
        """The handler has ended well, or the event is not for it: the message is gone."""
        return self.retry_after is None and self.dead_letter is None


@dataclass
class _Delivery:
    message: Message
    redelivered: bool = False
    retry_after: float | None = None
    dead_letter: DeadLetter | None = field(default=None)

    def ack(self) -> None:
        """It is done."""

    def later(self, message: Message, *, after: float) -> None:
        self.retry_after = after

    def dead(self, letter: DeadLetter) -> None:
        self.dead_letter = letter

    def give_back(self) -> None:
        raise AssertionError("nothing is given back here")


class _NoLedger:
    def claim(self, queue: str, key: str, *, redelivered: bool) -> Claimed:
        return Claimed(Claim.GRANTED)

    def claim_new(self, queue: str, *keys: str) -> list[Claimed | None]:
        return [Claimed(Claim.GRANTED)] * len(keys)

    def holds(self, queue: str, key: str) -> bool:
        return True

    def done(self, queue: str, *keys: str) -> None:
        """Nothing to mark."""

    def release(self, queue: str, *keys: str, ended: bool = True) -> None:
        """Nothing to free."""


def handle(consumers: Consumers, message: Message, *, queue: str = "") -> Ended:
    """Give *message* to the handler that a worker would call for it, in this thread.

    *queue* says which, where several queues take such an event. Raises LookupError where none
    does. Exceptions of the handler become retries and dead letters, as they do in a worker.
    """
    subscription = _subscription(consumers, message, queue)
    publisher, delivery = MemoryPublisher(), _Delivery(message)
    Runner(
        subscription,
        _NoLedger(),
        WorkerMetrics(CollectorRegistry()),
        schedule=subscription.rules.retry or SCHEDULE,
        jitter=lambda: 0.0,  # a test wants to know the number
        publisher=publisher,
    ).process(delivery)
    return Ended(subscription.queue, publisher.messages, delivery.retry_after, delivery.dead_letter)


def _subscription(consumers: Consumers, message: Message, queue: str) -> Subscription:
    name = topology.queue_name(queue) if queue else ""
    event = parse(message.body)
    for each in consumers:
        if name in ("", each.queue) and each.handler_of(event) is not None:
            return each
    raise LookupError(f"no handler takes {message.type} from {name or 'any queue'}")
