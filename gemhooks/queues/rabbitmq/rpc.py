"""pika's callbacks as coroutines."""

import asyncio
from collections.abc import Callable
from typing import Any

from pika.adapters.asyncio_connection import AsyncioConnection
from pika.channel import Channel
from pika.connection import Parameters

Closed = Callable[[BaseException], None]


async def connect(parameters: Parameters, *, timeout: float, on_close: Closed) -> AsyncioConnection:  # noqa: ASYNC109
    loop = asyncio.get_running_loop()
    opened: asyncio.Future[AsyncioConnection] = loop.create_future()
    connection = AsyncioConnection(
        parameters,
        on_open_callback=lambda connection: _resolve(opened, connection),
        on_open_error_callback=lambda _, reason: _fail(opened, reason),
        on_close_callback=lambda _, reason: on_close(reason),
        custom_ioloop=loop,
    )
    try:
        return await asyncio.wait_for(opened, timeout)
    finally:
        if not connection.is_open and not connection.is_closed and not connection.is_closing:
            connection.close()


async def open_channel(connection: AsyncioConnection) -> Channel:
    opened: asyncio.Future[Channel] = asyncio.get_running_loop().create_future()
    channel = connection.channel(on_open_callback=lambda channel: _resolve(opened, channel))
    channel.add_on_close_callback(lambda _, reason: _fail(opened, reason))
    return await opened


async def ask(channel: Channel, call: Callable[[Callable[[Any], None]], object]) -> Any:
    """Start *call* and wait for its answer, or raise what closed the channel meanwhile."""
    answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    channel.add_on_close_callback(lambda _, reason: _fail(answered, reason))
    call(lambda answer: _resolve(answered, answer))
    return await answered


def _resolve(future: asyncio.Future[Any], value: Any) -> None:
    if not future.done():
        future.set_result(value)


def _fail(future: asyncio.Future[Any], reason: BaseException) -> None:
    if not future.done():
        future.set_exception(reason)
