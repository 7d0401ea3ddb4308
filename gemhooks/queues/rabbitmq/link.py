"""A connection to RabbitMQ that heals by itself."""

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pika
import structlog

from gemhooks.queues.rabbitmq import parameters, rpc
from gemhooks.queues.rabbitmq.streams import Connection

FIRST_PAUSE = 0.2  # seconds
LONGEST_PAUSE = 10.0
PATIENCE = 15.0  # seconds for connecting
SET_UP = 30.0  # seconds; a cluster without a majority answers nothing

Connected = Callable[[Connection], Awaitable[None]]

_log = structlog.get_logger(__name__)


class Link:
    """Connects in the background, for ever; *set_up* prepares each new connection.

    Lives on the loop on which :meth:`run` does.
    """

    def __init__(self, url: pika.URLParameters, *, purpose: str, set_up: Connected) -> None:
        self._parameters = parameters.named(url, purpose)
        self._purpose = purpose
        self._set_up = set_up
        self._closing = False
        self._ended = asyncio.Event()
        self.ready = asyncio.Event()
        self.connection: Connection | None = None

    async def run(self) -> None:
        pause = FIRST_PAUSE
        while not self._closing:
            began = asyncio.get_running_loop().time()
            try:
                await self._live()
            except Exception as error:  # whatever it is: for ever means for ever
                self._tell("broker_unreachable", self._why(error), closing=logging.DEBUG)
            if asyncio.get_running_loop().time() - began > LONGEST_PAUSE:
                pause = FIRST_PAUSE  # it held: this is a new outage
            if not self._closing:
                await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - jitter
                pause = min(LONGEST_PAUSE, pause * 2)
        self._ended.set()

    async def close(self) -> None:
        """Its last frame comes after every ack we wrote."""
        self._closing = True
        if self.connection and self.connection.is_open:
            self.connection.close()
            await self._ended.wait()

    def _why(self, error: BaseException) -> str:
        return str(parameters.explain(self._parameters, error))

    def _tell(self, event: str, reason: str, *, closing: int) -> None:
        """A warning, unless it was to be expected since we are *closing*."""
        level = closing if self._closing else logging.WARNING
        _log.log(level, event, purpose=self._purpose, reason=reason)

    async def _live(self) -> None:
        """From connecting to losing the connection; raises when there was none."""
        lost: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
        connection = await rpc.connect(
            self._parameters, timeout=PATIENCE, on_close=partial(_resolve, lost)
        )
        self.connection = connection
        try:
            await self._prepare(connection, lost)
            self._announce(connection)
            reason = await lost
        finally:
            self.ready.clear()
            self.connection = None
            await connection.end()
        self._tell("broker_lost", str(reason), closing=logging.INFO)

    async def _prepare(self, connection: Connection, lost: asyncio.Future[BaseException]) -> None:
        """Set it up, for as long as it lives."""
        preparing = asyncio.ensure_future(self._set_up(connection))
        either: set[asyncio.Future[Any]] = {preparing, lost}
        try:
            await asyncio.wait(either, timeout=SET_UP, return_when=asyncio.FIRST_COMPLETED)
            if not preparing.done():
                raise lost.result() if lost.done() else TimeoutError
            preparing.result()
        finally:
            preparing.cancel()

    def _announce(self, connection: Connection) -> None:
        if connection.is_open:
            self.ready.set()
            host, port = self._parameters.host, self._parameters.port
            _log.info("broker_connected", purpose=self._purpose, host=host, port=port)


def _resolve(future: asyncio.Future[BaseException], reason: BaseException) -> None:
    with contextlib.suppress(asyncio.InvalidStateError):
        future.set_result(reason)
