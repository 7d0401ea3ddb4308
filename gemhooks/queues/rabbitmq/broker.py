"""One connection to RabbitMQ that heals by itself."""

import asyncio
import contextlib
import logging
import random
from collections.abc import Coroutine, Sequence
from concurrent.futures import Future
from functools import partial
from threading import Thread
from typing import Any, TypeVar

import structlog
from pika.adapters.asyncio_connection import AsyncioConnection

from gemhooks import topology
from gemhooks.errors import Misconfigured, PublishFailed, Unavailable
from gemhooks.messages import Message, OnDelivery
from gemhooks.queues.rabbitmq import browsing, declaring, parameters, rpc, wire
from gemhooks.queues.rabbitmq.consuming import RabbitSubscriber
from gemhooks.queues.rabbitmq.mailbox import Mailbox
from gemhooks.queues.rabbitmq.outbox import Outbox

FIRST_PAUSE = 0.2  # seconds
LONGEST_PAUSE = 10.0
PATIENCE = 15.0  # seconds that a person or a start-up waits for an answer
SET_UP = 30.0
HEARTBEAT = 10  # seconds

T = TypeVar("T")

_log = structlog.get_logger(__name__)


class RabbitBroker:
    """Exchanges, queues and consumers of one RabbitMQ virtual host.

    Without *loop* it owns a thread; with one it lives there, and nothing it does blocks it.
    It connects in the background, for ever: start order does not matter.
    """

    def __init__(
        self,
        url: str,
        *,
        publish_timeout: float = 5.0,
        loop: asyncio.AbstractEventLoop | None = None,
        heartbeat: int = HEARTBEAT,
        declare: Sequence[topology.Queue] = (),
    ) -> None:
        self._parameters = parameters.parse(url, heartbeat)
        self._queues = {queue.name: queue for queue in (*topology.BUILT_IN, *declare)}
        self._subscribers: list[RabbitSubscriber] = []
        self._connection: AsyncioConnection | None = None
        self._problems: declaring.Problems = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing = False
        self._thread: Thread | None = None
        self._loop = loop or self._start_thread()
        self._mailbox = Mailbox(self._loop)
        self._outbox = Outbox(self._loop, publish_timeout)
        self._declared = asyncio.Event()
        self._runners: set[asyncio.Task[None]] = set()
        self._loop.call_soon_threadsafe(self._begin)

    def _start_thread(self) -> asyncio.AbstractEventLoop:
        loop = asyncio.new_event_loop()
        self._thread = Thread(target=loop.run_forever, name="gemhooks-rabbitmq", daemon=True)
        self._thread.start()
        return loop

    def _begin(self) -> None:
        self._runners.add(self._spawn(self._run()))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self._tasks.add(task)  # the loop itself holds tasks only weakly
        task.add_done_callback(self._tasks.discard)
        return task

    @property
    def publisher(self) -> "RabbitBroker":
        return self

    @property
    def problems(self) -> dict[str, Misconfigured]:
        """What RabbitMQ has otherwise than we declare it, by name."""
        return dict(self._problems)

    def is_ready(self) -> bool:
        return self._declared.is_set() and self._outbox.is_open

    def check(self) -> None:
        """Misconfigured or Unavailable, in one sentence, where one cannot connect."""
        parameters.check(self._parameters)

    # -- publishing

    def publish(self, message: Message, *, exchange: str = topology.EVENTS) -> Future[None]:
        return self._send(wire.event(message, exchange))

    def send(self, queue: str, message: Message) -> Future[None]:
        """Hand *message* to one queue only, as a replay does."""
        return self._send(wire.addressed(message, topology.RETURN, queue))

    def _send(self, parcel: wire.Parcel) -> Future[None]:
        future: Future[None] = Future()
        future.set_running_or_notify_cancel()  # it is out of our hands: nobody can cancel it
        if self._on_loop():
            self._outbox.send(parcel, future)
            return future
        try:
            self._mailbox.post(lambda: self._outbox.send(parcel, future))
        except RuntimeError:
            future.set_exception(PublishFailed("disconnected", "closed"))
        return future

    def _on_loop(self) -> bool:
        try:
            return asyncio.get_running_loop() is self._loop
        except RuntimeError:
            return False

    # -- declaring and consuming

    def declare(self, queues: list[topology.Queue]) -> None:
        """Unavailable while RabbitMQ is away: they are declared as soon as it is back."""
        self._queues |= {queue.name: queue for queue in queues}
        self._wait(self._declare(queues))

    async def _declare(self, queues: list[topology.Queue]) -> None:
        await self._declared.wait()
        if self._connection is None:
            raise Unavailable("RabbitMQ is away")
        found = await declaring.declare_queues(self._connection, queues)
        self._problems |= found
        for name, problem in self._problems.items():
            if (
                name in found or name not in self._queues
            ):  # other people's queues are not our affair
                raise problem

    def consume(self, queue: str, on_delivery: OnDelivery, *, prefetch: int) -> RabbitSubscriber:
        subscriber = RabbitSubscriber(queue, on_delivery, prefetch, self._mailbox, self._outbox)
        self._mailbox.post(lambda: self._subscribe(subscriber))
        return subscriber

    def _subscribe(self, subscriber: RabbitSubscriber) -> None:
        self._subscribers.append(subscriber)
        if self._connection and self._declared.is_set():
            self._spawn(subscriber.serve(self._connection))

    def browse(self, queue: str, limit: int) -> list[tuple[Message, wire.Headers]]:
        """Look at the first messages of *queue* and leave them there."""
        return self._wait(self._browse(queue, limit))

    async def _browse(self, queue: str, limit: int) -> list[tuple[Message, wire.Headers]]:
        await self._declared.wait()
        if self._connection is None:
            raise Unavailable("RabbitMQ is away")
        return await browsing.browse(self._connection, queue, limit)

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        if self._on_loop():
            work.close()
            raise RuntimeError("it waits for the loop: call it from another thread")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(PATIENCE)
        except TimeoutError:
            future.cancel()
            raise Unavailable("RabbitMQ does not answer") from None

    # -- staying connected

    async def _run(self) -> None:
        pause = FIRST_PAUSE
        while not self._closing:
            try:
                await self._live()
                pause = FIRST_PAUSE
            except Exception as error:  # whatever it is: for ever means for ever
                _log.warning("broker_unreachable", reason=self._reason(error))
            if not self._closing:
                await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - jitter
                pause = min(LONGEST_PAUSE, pause * 2)

    def _reason(self, error: BaseException) -> str:
        return str(parameters.explain(self._parameters, error))

    async def _live(self) -> None:
        """From connecting to losing the connection; raises when there was none."""
        lost: asyncio.Future[BaseException] = self._loop.create_future()
        connection = await rpc.connect(
            self._parameters, timeout=PATIENCE, on_close=partial(_resolve, lost)
        )
        self._connection = connection
        try:
            await self._set_up(connection, lost)
            reason = await lost
        finally:
            self._declared.clear()
            self._connection = None
            if connection.is_open:
                connection.close()
        _log.log(self._level(), "broker_lost", reason=str(reason))

    def _level(self) -> int:
        return logging.INFO if self._closing else logging.WARNING

    async def _set_up(
        self, connection: AsyncioConnection, lost: asyncio.Future[BaseException]
    ) -> None:
        connection.add_on_connection_blocked_callback(
            lambda _, frame: self._outbox.block(frame.method.reason or "")
        )
        connection.add_on_connection_unblocked_callback(lambda *_: self._outbox.unblock())
        async with asyncio.timeout(SET_UP):  # a cluster without a majority answers nothing
            self._problems = await declaring.declare(connection, list(self._queues.values()))
            await self._outbox.open(connection)
        if not lost.done():
            self._serve(connection)

    def _serve(self, connection: AsyncioConnection) -> None:
        for problem in self._problems.values():
            _log.error("broker_misconfigured", reason=str(problem))
        self._spawn(self._outbox.serve(connection))
        for subscriber in self._subscribers:
            self._spawn(subscriber.serve(connection))
        self._declared.set()
        _log.info("broker_connected", host=self._parameters.host, port=self._parameters.port)

    # -- closing

    def close(self, *, timeout: float = 5.0) -> None:
        if self._loop.is_closed():
            return
        if self._on_loop():
            raise RuntimeError("on the broker's own loop, await aclose()")
        future = asyncio.run_coroutine_threadsafe(self.aclose(timeout=timeout), self._loop)
        with contextlib.suppress(TimeoutError):
            future.result(timeout + 1)
        self._stop_thread()

    async def aclose(self, *, timeout: float = 5.0) -> None:  # noqa: ASYNC109 - as close()
        """As close(), for those who live on the same loop."""
        self._closing = True
        for subscriber in self._subscribers:
            subscriber.stop()
        self._mailbox.drain()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._outbox.idle.wait()
                await self._disconnect()
        await self._end_tasks()

    async def _disconnect(self) -> None:
        """Its last frame comes after every ack we wrote."""
        if self._connection and self._connection.is_open:
            self._connection.close()
            await asyncio.wait(self._runners)

    async def _end_tasks(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _stop_thread(self) -> None:
        if self._thread:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(timeout=1.0)
            if not self._thread.is_alive():
                self._loop.close()


def _resolve(future: asyncio.Future[BaseException], reason: BaseException) -> None:
    if not future.done():
        future.set_result(reason)
