"""Looks at messages without using them up."""

from typing import Any

from pika import BasicProperties
from pika.adapters.asyncio_connection import AsyncioConnection
from pika.channel import Channel
from pika.spec import Basic

from gemhooks.messages import Message
from gemhooks.queues.rabbitmq import rpc, wire

Seen = tuple[Message, wire.Headers]


async def browse(connection: AsyncioConnection, queue: str, limit: int) -> list[Seen]:
    channel = await rpc.open_channel(connection)
    seen: list[Seen] = []
    last = 0
    while len(seen) < limit and (got := await _get(channel, queue)):
        method, properties, body = got
        last = method.delivery_tag or 0
        seen.append((wire.read(method, properties, body), wire.headers_of(properties)))
    if last:  # all at the end: one that goes back at once would be the next one again
        channel.basic_nack(last, multiple=True, requeue=True)
    channel.close()
    return seen


async def _get(channel: Channel, queue: str) -> tuple[Basic.GetOk, BasicProperties, bytes] | None:
    def ask(done: Any) -> None:
        channel.add_callback(lambda _: done(None), [Basic.GetEmpty], one_shot=True)
        channel.basic_get(queue, lambda _, *got: done(got))

    answer: tuple[Basic.GetOk, BasicProperties, bytes] | None = await rpc.ask(channel, ask)
    return answer
