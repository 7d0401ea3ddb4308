"""pika's callbacks as coroutines."""

import asyncio
from collections.abc import Callable
from typing import Any

from pika.adapters.asyncio_connection import AsyncioConnection
from pika.channel import Channel
from pika.connection import Parameters

from gemhooks.queues.rabbitmq import decoding
from gemhooks.queues.rabbitmq.streams import Connection

Closed = Callable[[BaseException], None]


async def connect(parameters: Parameters, *, timeout: float, on_close: Closed) -> Connection:  # noqa: ASYNC109
    decoding.tolerate()
    loop = asyncio.get_running_loop()
    opened: asyncio.Future[Connection] = loop.create_future()
    connection = Connection(
        parameters,
        on_open=lambda connection: _resolve(opened, connection),
        on_open_error=lambda _, reason: _fail(opened, reason),
        on_close=lambda _, reason: on_close(reason),
        loop=loop,
    )
    try:
        return await asyncio.wait_for(opened, timeout)
    finally:
        if not connection.is_open:
            await connection.end()


async def open_channel(connection: AsyncioConnection) -> Channel:
    opened: asyncio.Future[Channel] = asyncio.get_running_loop().create_future()
    channel = connection.channel(on_open_callback=lambda channel: _resolve(opened, channel))
    channel.add_on_close_callback(lambda _, reason: _fail(opened, reason))
    return await opened


async def ask(channel: Channel, call: Callable[[Callable[[Any], None]], object]) -> Any:
    """Start *call* and wait for its answer, or raise what closed the channel meanwhile."""
    answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    channel.add_on_close_callback(lambda _, reason: _fail(answered, reason))
    try:
        call(lambda answer: _resolve(answered, answer))
        return await answered
    finally:
        answered.cancel()  # nobody waits for it any more


async def look_at(connection: AsyncioConnection, queue: str) -> tuple[int, int]:
    """How many messages wait in *queue*, and how many consumers it has.

    Raises ChannelClosedByBroker where there is none.
    """
    channel = await open_channel(connection)
    try:
        return await exists(channel, queue)
    finally:
        if channel.is_open:
            channel.close()


async def exists(channel: Channel, queue: str) -> tuple[int, int]:
    """As :func:`look_at`; a missing queue closes the channel."""
    found = await ask(
        channel, lambda done: channel.queue_declare(queue, passive=True, callback=done)
    )
    return found.method.message_count, found.method.consumer_count


def _resolve(future: asyncio.Future[Any], value: Any) -> None:
    if not future.done():
        future.set_result(value)


def _fail(future: asyncio.Future[Any], reason: BaseException) -> None:
    if not future.done():
        future.set_exception(reason)
