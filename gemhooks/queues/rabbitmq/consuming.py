"""One subscription: its channel, and the deliveries that came through it."""

import asyncio
import contextlib
import socket
from concurrent.futures import Future
from dataclasses import replace
from datetime import UTC, datetime

import structlog
from pika import BasicProperties
from pika.adapters.asyncio_connection import AsyncioConnection
from pika.channel import Channel
from pika.exceptions import AMQPError
from pika.spec import Basic

from gemhooks import topology
from gemhooks.messages import DeadLetter, Message, OnDelivery
from gemhooks.queues.rabbitmq import rpc, wire
from gemhooks.queues.rabbitmq.mailbox import Mailbox, Work
from gemhooks.queues.rabbitmq.outbox import Outbox

PAUSE = 1.0  # seconds before what failed is tried again, so that nothing spins

_log = structlog.get_logger(__name__)


class RabbitSubscriber:
    """Serves one queue across reconnects, cancelled consumers and closed channels."""

    def __init__(
        self, queue: str, on_delivery: OnDelivery, prefetch: int, mailbox: Mailbox, outbox: Outbox
    ) -> None:
        self.queue = queue
        self.mailbox = mailbox
        self.outbox = outbox
        self._on_delivery = on_delivery
        self._prefetch = prefetch
        self._channel: Channel | None = None
        self._tag = ""
        self._stopped = False

    def stop(self) -> None:
        self._stopped = True
        with contextlib.suppress(RuntimeError):  # the loop is closed: nothing is consumed any more
            self.mailbox.post(self._cancel)

    def _cancel(self) -> None:
        if self._channel and self._channel.is_open:
            self._channel.basic_cancel(self._tag)

    async def serve(self, connection: AsyncioConnection) -> None:
        while connection.is_open and not self._stopped:
            try:
                ended = await self._subscribe(connection)
                reason = await ended
            except AMQPError as error:
                reason = str(error)
            if connection.is_open and not self._stopped:
                _log.warning("consumer_lost", queue=self.queue, reason=reason)
                await asyncio.sleep(PAUSE)

    async def _subscribe(self, connection: AsyncioConnection) -> asyncio.Future[str]:
        channel = await rpc.open_channel(connection)
        ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        channel.add_on_close_callback(lambda _, reason: _end(ended, str(reason)))
        channel.add_on_cancel_callback(lambda _: _end(ended, "cancelled by the broker"))
        await rpc.ask(channel, lambda done: channel.basic_qos(0, self._prefetch, callback=done))
        self._channel = channel
        self._tag = channel.basic_consume(self.queue, self._delivered)
        return ended

    def _delivered(
        self, channel: Channel, method: Basic.Deliver, properties: BasicProperties, body: bytes
    ) -> None:
        message = wire.read(method, properties, body)
        delivery = RabbitDelivery(self, channel, method, message)
        if self._stopped:
            delivery.give_back()
        elif message.waiting:  # this hop is over, the wait is not: not an attempt
            delivery.later(message, after=message.waiting)
        else:
            self._hand_over(delivery)

    def _hand_over(self, delivery: "RabbitDelivery") -> None:
        try:
            self._on_delivery(delivery)
        except Exception:  # pika would take it for a fault of the connection
            _log.exception("on_delivery_failed", queue=self.queue)
            asyncio.get_running_loop().call_later(PAUSE, delivery.give_back)


def _end(ended: asyncio.Future[str], reason: str) -> None:
    if not ended.done():
        ended.set_result(reason)


class RabbitDelivery:
    """Knows the channel it came by: on any other its tag would mean another message."""

    def __init__(
        self, origin: RabbitSubscriber, channel: Channel, method: Basic.Deliver, message: Message
    ) -> None:
        self._origin = origin
        self._channel = channel
        self._tag = method.delivery_tag or 0
        self._message = message
        self._redelivered = bool(method.redelivered)

    @property
    def message(self) -> Message:
        return self._message

    @property
    def redelivered(self) -> bool:
        return self._redelivered

    def ack(self) -> None:
        self._post(self._ack)

    def give_back(self) -> None:
        self._post(self._nack)

    def later(self, message: Message, *, after: float) -> None:
        rung, left = topology.first_hop(after)
        hopping = replace(message, waiting=left)
        self._replace(wire.addressed(hopping, topology.retry_name(rung), self._origin.queue))

    def dead(self, letter: DeadLetter) -> None:
        queue = self._origin.queue
        headers = {**letter.headers(), **_place(queue)}
        self._replace(wire.addressed(self._message, "", topology.dead_letters(queue), headers))

    def _replace(self, parcel: wire.Parcel) -> None:
        """The copy first: between the two the message may exist twice, but never not at all."""
        copied: Future[None] = Future()
        copied.add_done_callback(self._copied)
        self._post(lambda: self._origin.outbox.send(parcel, copied))

    def _copied(self, copied: Future[None]) -> None:
        if copied.exception() is None:
            self._ack()
        else:
            _log.warning("copy_failed", queue=self._origin.queue, reason=str(copied.exception()))
            asyncio.get_running_loop().call_later(PAUSE, self._nack)

    def _post(self, work: Work) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: the broker redelivers
            self._origin.mailbox.post(work)

    def _ack(self) -> None:
        if self._channel.is_open:  # else the broker redelivers it
            self._channel.basic_ack(self._tag)

    def _nack(self) -> None:
        if self._channel.is_open:
            self._channel.basic_nack(self._tag, requeue=True)


def _place(queue: str) -> dict[str, str | int]:
    return {
        "gemhooks-dead-queue": queue,
        "gemhooks-dead-at": datetime.now(UTC).isoformat(timespec="seconds"),
        "gemhooks-dead-host": socket.gethostname(),
    }
