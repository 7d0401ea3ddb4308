"""A walk through a queue that uses nothing up."""

from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from pika import BasicProperties
from pika.adapters.asyncio_connection import AsyncioConnection
from pika.channel import Channel
from pika.exceptions import AMQPError
from pika.spec import Basic

from gemhooks.errors import Unavailable
from gemhooks.messages import Seen
from gemhooks.queues.rabbitmq import rpc, wire
from gemhooks.queues.rabbitmq.mailbox import Mailbox
from gemhooks.queues.rabbitmq.settling import Settler

Got = tuple[Basic.GetOk, BasicProperties, bytes]
Wait = Callable[[Coroutine[Any, Any, Any]], Any]


class RabbitLook:
    """Holds what it has shown, unacknowledged, until it is closed: one that went back at once
    would be the next one again.

    Used from another thread than the loop's, which *wait* waits for.
    """

    def __init__(
        self, channel: Channel, queue: str, total: int, wait: Wait, mailbox: Mailbox
    ) -> None:
        self._channel = channel
        self._queue = queue
        self._settler = Settler(channel)
        self._total = total
        self._wait = wait
        self._mailbox = mailbox
        self._empty: Callable[[Any], None] = _nobody
        # Once, not at each get: pika would keep those of the gets that found something.
        channel.add_callback(lambda _: self._empty(None), [Basic.GetEmpty], one_shot=False)

    def __len__(self) -> int:
        return self._total

    def __iter__(self) -> Iterator[Seen]:
        while seen := self._wait(self._next()):
            yield seen

    def remove(self, seen: Seen) -> None:
        self._mailbox.post(lambda: self._settler.ack(seen.place))

    def close(self) -> None:
        self._wait(self._close())

    async def _next(self) -> Seen | None:
        try:
            got = await self._get()
        except AMQPError as error:
            raise Unavailable(f"RabbitMQ went away: {type(error).__name__}") from error
        if got is None:
            return None
        method, properties, body = got
        self._settler.take(method.delivery_tag or 0)
        message = wire.read(method, properties, body)
        return Seen(message, wire.headers_of(properties), method.delivery_tag or 0)

    async def _get(self) -> Got | None:
        def ask(done: Any) -> None:
            self._empty = done
            self._channel.basic_get(self._queue, lambda _, *got: done(got))

        answer: Got | None = await rpc.ask(self._channel, ask)
        return answer

    async def _close(self) -> None:
        if not self._channel.is_open:  # what it held has gone back already
            return
        try:
            await self._settler.flush()
            self._channel.basic_nack(0, multiple=True, requeue=True)  # 0: all that is left
            self._channel.close()
        except AMQPError as error:
            raise Unavailable(f"RabbitMQ went away: {type(error).__name__}") from error


async def open_look(
    connection: AsyncioConnection, queue: str, wait: Wait, mailbox: Mailbox
) -> RabbitLook:
    """Raises ChannelClosedByBroker where the queue is missing."""
    total, _ = await rpc.look_at(connection, queue)
    return RabbitLook(await rpc.open_channel(connection), queue, total, wait, mailbox)


def _nobody(_: Any) -> None:
    """Nobody asked."""
