"""One subscription, across reconnects, cancelled consumers and closed channels."""

import asyncio
import contextlib
import random
import time
from collections.abc import Awaitable, Callable

import structlog
from pika import BasicProperties
from pika.adapters.asyncio_connection import AsyncioConnection
from pika.channel import Channel
from pika.exceptions import AMQPError, ChannelClosedByBroker
from pika.spec import Basic

from gemhooks.messages import Message, OnDelivery
from gemhooks.queues.rabbitmq import rpc, wire
from gemhooks.queues.rabbitmq.arrivals import Arrival
from gemhooks.queues.rabbitmq.delivering import RabbitDelivery
from gemhooks.queues.rabbitmq.mailbox import Mailbox
from gemhooks.queues.rabbitmq.outbox import Outbox
from gemhooks.queues.rabbitmq.settling import Settler
from gemhooks.queues.rabbitmq.streams import Connection

PAUSE = 1.0  # seconds before what failed is tried again, so that nothing spins
LONGEST_PAUSE = 8.0  # seconds; where it fails again and again
LOOK_EVERY = 5.0  # seconds between looks whether the queue really comes to us
ANSWER = 10.0  # seconds that a look may take
IDLE_LOOKS = 12  # looks in a row without a delivery: then the subscription is made anew
DOUBTS = 2  # looks in a row; while a queue elects its leader it says that it has no consumers
NOT_FOUND = 404
RENEWED = "renewed"

Missing = Callable[[], Awaitable[None]]

_log = structlog.get_logger(__name__)


class RabbitSubscriber:
    """Serves one queue; *missing* is called where it is not there any more."""

    def __init__(
        self,
        queue: str,
        on_delivery: OnDelivery,
        *,
        prefetch: int,
        mailbox: Mailbox,
        outbox: Outbox,
        missing: Missing,
        look_every: float = LOOK_EVERY,
    ) -> None:
        self.queue = queue
        self.mailbox = mailbox
        self.outbox = outbox
        self._on_delivery = on_delivery
        self._prefetch = prefetch
        self._missing = missing
        self._look_every = look_every
        self._settler: Settler | None = None
        self._tag = ""
        self._stopped = False
        self._deliveries = 0
        self.alive_at = time.monotonic()

    @property
    def is_consuming(self) -> bool:
        return self._settler is not None and not self._stopped

    def stop(self) -> None:
        if self._stopped:
            return
        self._stopped = True
        with contextlib.suppress(RuntimeError):  # the loop is closed: nothing is consumed any more
            self.mailbox.post(self._cancel)

    def _cancel(self) -> None:
        if self._settler and self._settler.channel.is_open:
            self._settler.channel.basic_cancel(self._tag)

    async def flush(self) -> None:
        """See that what was settled is not lost with the connection."""
        if self._settler:
            with contextlib.suppress(AMQPError):
                await self._settler.flush()

    async def serve(self, connection: Connection) -> None:
        pause = PAUSE
        while self._wanted(connection):
            began = time.monotonic()
            try:
                reason = await self._live(connection)
            except ChannelClosedByBroker as refusal:
                reason = str(refusal)
                if refusal.reply_code == NOT_FOUND:
                    await self._missing()
            except AMQPError as error:
                reason = str(error)
            pause = PAUSE if time.monotonic() - began > LONGEST_PAUSE else pause
            if self._wanted(connection) and reason != RENEWED:
                _log.warning("consumer_lost", queue=self.queue, reason=reason)
                await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - jitter
                pause = min(LONGEST_PAUSE, 2 * pause)

    def _wanted(self, connection: AsyncioConnection) -> bool:
        return bool(connection.is_open) and not self._stopped

    async def _live(self, connection: Connection) -> str:
        """From subscribing to the end of the subscription; answers why it ended."""
        channel = await rpc.open_channel(connection)
        ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        number = channel.channel_number
        channel.add_on_close_callback(lambda *_: connection.divert_no_more(number))
        channel.add_on_close_callback(lambda _, reason: _end(ended, str(reason)))
        channel.add_on_cancel_callback(lambda _: _end(ended, "cancelled by the broker"))
        await self._subscribe(connection, channel)
        watching = asyncio.create_task(self._watch(connection, ended))
        try:
            return await ended
        finally:
            watching.cancel()
            if not (ended.done() and ended.result() == RENEWED):  # else its successor is at hand
                self._settler = None
            self._leave(connection, channel)

    async def _subscribe(self, connection: Connection, channel: Channel) -> None:
        settler = Settler(channel)

        def delivered(
            _channel: Channel, method: Basic.Deliver, properties: BasicProperties, body: bytes
        ) -> None:
            message = wire.read(method, properties, body)
            self._delivered(settler, method, message)

        def arrived(arrival: Arrival) -> None:
            self._delivered(settler, arrival, wire.read(arrival, arrival, arrival.body))

        def consume(done: Callable[[object], None]) -> None:
            self._tag = channel.basic_consume(self.queue, delivered, callback=done)
            connection.divert(channel.channel_number, self._tag, arrived)

        await rpc.ask(channel, lambda done: channel.basic_qos(0, self._prefetch, callback=done))
        await rpc.ask(channel, consume)
        self._settler = settler
        self.alive_at = time.monotonic()

    def _leave(self, connection: Connection, channel: Channel) -> None:
        """A channel whose consumer was cancelled can still settle what came through it."""
        if self._stopped or not channel.is_open:
            return
        connection.divert_no_more(channel.channel_number)  # pika drops what comes from now on
        with contextlib.suppress(AMQPError):
            channel.close()

    # -- whether messages really come

    async def _watch(self, connection: AsyncioConnection, ended: asyncio.Future[str]) -> None:
        """Deleted and declared again at once, a queue forgets its consumers without a word.

        Or it remembers them and their channel drops what it sends, numbered anew: to us that looks
        like an idle queue, so an idle subscription is made anew now and then.
        """
        doubts = idle = 0
        while doubts < DOUBTS and idle < IDLE_LOOKS:
            before = self._deliveries
            await asyncio.sleep(self._look_every * random.uniform(0.8, 1.2))  # noqa: S311 - jitter
            try:
                async with asyncio.timeout(ANSWER):
                    waiting, consumers = await rpc.look_at(connection, self.queue)
            except TimeoutError:  # no majority, say: not proved, but nothing to do either
                continue
            except AMQPError as error:
                _end(ended, str(error))
                return
            is_still = self._deliveries == before
            idle = idle + 1 if is_still and not self._unsettled else 0
            if consumers and not (waiting and is_still and self._unsettled < self._prefetch):
                doubts, self.alive_at = 0, time.monotonic()
            else:
                doubts += 1
        _end(ended, "forgotten by the queue" if doubts else RENEWED)

    @property
    def _unsettled(self) -> int:
        return self._settler.unsettled if self._settler else 0

    # -- what comes

    def _delivered(
        self, settler: Settler, method: Basic.Deliver | Arrival, message: Message
    ) -> None:
        self._deliveries += 1
        self.alive_at = time.monotonic()
        tag = method.delivery_tag or 0
        settler.take(tag)
        redelivered = bool(method.redelivered)
        delivery = RabbitDelivery(self, settler, tag, message, redelivered=redelivered)
        if self._stopped:
            delivery.give_back()
        elif message.waiting:  # this hop is over, the wait is not: not an attempt
            delivery.later(message, after=message.waiting)
        else:
            self._hand_over(delivery)

    def _hand_over(self, delivery: RabbitDelivery) -> None:
        try:
            self._on_delivery(delivery)
        except Exception:  # pika would take it for a fault of the connection
            _log.exception("on_delivery_failed", queue=self.queue)
            asyncio.get_running_loop().call_later(PAUSE, delivery.give_back)


def _end(ended: asyncio.Future[str], reason: str) -> None:
    if not ended.done():
        ended.set_result(reason)
