"""A message in a worker's hands, and the ways to settle it."""

import asyncio
import contextlib
import random
from typing import Protocol

import structlog
from msgspec.structs import replace

from gemhooks import topology
from gemhooks.messages import DeadLetter, Message
from gemhooks.queues.rabbitmq import wire
from gemhooks.queues.rabbitmq.confirms import Confirm
from gemhooks.queues.rabbitmq.mailbox import Mailbox, Work
from gemhooks.queues.rabbitmq.outbox import Outbox
from gemhooks.queues.rabbitmq.settling import Settler

PAUSE, LONGEST_PAUSE = 1.0, 5.0  # seconds before a copy that failed is sent again
SPREAD = 0.2  # of a wait: what failed together must not come back together

_log = structlog.get_logger(__name__)


class Origin(Protocol):
    """Where a delivery came from."""

    queue: str
    mailbox: Mailbox
    outbox: Outbox


class RabbitDelivery:
    def __init__(
        self, origin: Origin, settler: Settler, tag: int, message: Message, *, redelivered: bool
    ) -> None:
        self._origin = origin
        self._settler = settler
        self._tag = tag
        self._pause = PAUSE
        self.message = message
        self.redelivered = redelivered

    def ack(self) -> None:
        self._settler.ack(self._tag)

    def give_back(self) -> None:
        self._post(self._give_back)

    def later(self, message: Message, *, after: float) -> None:
        rung, left = topology.first_hop(after)
        if not message.waiting:
            left = spread(after, rung)
        hopping = replace(message, waiting=left)
        self._replace(wire.addressed(hopping, topology.retry_name(rung), self._origin.queue))

    def dead(self, letter: DeadLetter) -> None:
        queue = self._origin.queue
        headers = letter.headers(self.message, queue)
        self._replace(wire.addressed(self.message, "", topology.dead_letters(queue), headers))

    def _replace(self, parcel: wire.Parcel) -> None:
        """The copy first: between the two the message may exist twice, but never not at all."""
        self._post(lambda: self._copy(parcel))

    def _copy(self, parcel: wire.Parcel) -> None:
        if not self._settler.holds(self._tag):  # it has gone back with its channel
            return
        copied = Confirm()
        copied.add_done_callback(lambda _: self._copied(copied, parcel))
        self._origin.outbox.send(parcel, copied)

    def _copied(self, copied: Confirm, parcel: wire.Parcel) -> None:
        if copied.exception() is None:
            self.ack()
            return
        _log.warning("copy_failed", queue=self._origin.queue, reason=str(copied.exception()))
        # Not given back: its handler would run again at once, and again and again, uncounted.
        pause, self._pause = self._pause, min(LONGEST_PAUSE, 2 * self._pause)
        asyncio.get_running_loop().call_later(pause, self._copy, parcel)

    def _post(self, work: Work) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: the broker redelivers
            self._origin.mailbox.post(work)

    def _give_back(self) -> None:
        self._settler.give_back(self._tag)


def spread(after: float, rung: int) -> int:
    """Seconds to wait behind *rung*, other ones for each message of a burst.

    A wait that was rounded up to its rung has lost its jitter. Of one that was not, whole seconds
    are left, fewer than its jitter added.
    """
    if after > rung:
        return round(after - rung)
    most = round(SPREAD * after)
    shortest, next_to_it = topology.RUNGS[:2]
    if most < next_to_it:  # two seconds would be rounded up to five
        most = min(most, shortest)
    return random.randint(0, most)  # noqa: S311 - no secret
