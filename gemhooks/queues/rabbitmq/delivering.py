"""A message in a worker's hands, and the ways to settle it."""

import asyncio
import contextlib
from concurrent.futures import Future
from dataclasses import replace
from typing import Protocol

import structlog

from gemhooks import topology
from gemhooks.messages import DeadLetter, Message
from gemhooks.queues.rabbitmq import wire
from gemhooks.queues.rabbitmq.mailbox import Mailbox, Work
from gemhooks.queues.rabbitmq.outbox import Outbox
from gemhooks.queues.rabbitmq.settling import Settler

PAUSE = 1.0  # seconds before a message whose copy failed is taken again

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
        self.message = message
        self.redelivered = redelivered

    def ack(self) -> None:
        self._settler.ack(self._tag)

    def give_back(self) -> None:
        self._post(self._give_back)

    def later(self, message: Message, *, after: float) -> None:
        rung, left = topology.first_hop(after)
        hopping = replace(message, waiting=left)
        self._replace(wire.addressed(hopping, topology.retry_name(rung), self._origin.queue))

    def dead(self, letter: DeadLetter) -> None:
        queue = self._origin.queue
        headers = letter.headers(self.message, queue)
        self._replace(wire.addressed(self.message, "", topology.dead_letters(queue), headers))

    def _replace(self, parcel: wire.Parcel) -> None:
        """The copy first: between the two the message may exist twice, but never not at all."""
        copied: Future[None] = Future()
        copied.add_done_callback(self._copied)
        self._post(lambda: self._origin.outbox.send(parcel, copied))

    def _copied(self, copied: Future[None]) -> None:
        if copied.exception() is None:
            self.ack()
        else:
            _log.warning("copy_failed", queue=self._origin.queue, reason=str(copied.exception()))
            asyncio.get_running_loop().call_later(PAUSE, self._give_back)

    def _post(self, work: Work) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: the broker redelivers
            self._origin.mailbox.post(work)

    def _give_back(self) -> None:
        self._settler.give_back(self._tag)
