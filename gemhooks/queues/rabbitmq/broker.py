"""RabbitMQ as a Broker: what it publishes, consumes, declares and shows."""

import asyncio
import contextlib
import random
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from itertools import islice
from threading import Thread
from typing import Any, TypeVar

import structlog
from pika.exceptions import AMQPError, ChannelClosedByBroker

from gemhooks import topology
from gemhooks.errors import GemhooksError, Misconfigured, PublishFailed, Unavailable
from gemhooks.messages import Headers, Message, OnDelivery
from gemhooks.pulse import Pulse
from gemhooks.queues.rabbitmq import browsing, declaring, management, parameters, wire
from gemhooks.queues.rabbitmq.confirms import Confirm
from gemhooks.queues.rabbitmq.consuming import LOOK_EVERY, RabbitSubscriber
from gemhooks.queues.rabbitmq.link import Link
from gemhooks.queues.rabbitmq.mailbox import Mailbox
from gemhooks.queues.rabbitmq.outbox import Outbox
from gemhooks.queues.rabbitmq.streams import Connection

PATIENCE = 15.0  # seconds that a person or a start-up waits for an answer
HEARTBEAT = 10  # seconds
MEND_EVERY = 5.0  # seconds, at least, between two declarations because of trouble
DECLARE_EVERY = 20.0  # seconds between two declarations without any

T = TypeVar("T")

_log = structlog.get_logger(__name__)


class RabbitBroker:
    """Exchanges, queues and consumers of one RabbitMQ virtual host.

    Without *loop* it owns a thread; with one it lives there, and nothing it does blocks it.
    It connects in the background, for ever: start order does not matter. Publishing and consuming
    have a connection each: one that RabbitMQ blocks, being short of memory, must not keep
    acknowledgements from it, which free memory.
    """

    def __init__(
        self,
        url: str,
        *,
        publish_timeout: float = 5.0,
        loop: asyncio.AbstractEventLoop | None = None,
        heartbeat: int = HEARTBEAT,
        declare: Sequence[topology.Queue] = (),
        verify: bool = False,
        management_url: str = "",
        look_every: float = LOOK_EVERY,
        declare_every: float = DECLARE_EVERY,
    ) -> None:
        """With *verify* it declares nothing: it looks whether everything is there.

        Whether it has the right arguments, and which other queues there are, only
        *management_url* can tell. Every *look_every* seconds each consumer proves that it consumes.
        """
        self._parameters = parameters.parse(url, heartbeat)
        self._verify = verify
        self._management_url = management_url
        self._look_every = look_every
        self._declare_every = declare_every
        self._queues = {queue.name: queue for queue in (*topology.BUILT_IN, *declare)}
        self._subscribers: list[RabbitSubscriber] = []
        self._problems: declaring.Problems = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread: Thread | None = None
        self._loop = loop or self._start_thread()
        self._mailbox = Mailbox(self._loop)
        self._outbox = Outbox(self._loop, publish_timeout, self._mend_soon)
        self._publishing = self._link("publish", self._set_up)
        self._consuming = self._link("consume", self._serve)
        self._is_consuming = False
        self._was_declared = False
        self._mending: asyncio.Task[None] | None = None
        self._pulse = Pulse()
        self._loop.call_soon_threadsafe(self._begin)

    def _start_thread(self) -> asyncio.AbstractEventLoop:
        loop = asyncio.new_event_loop()
        self._thread = Thread(target=loop.run_forever, name="gemhooks-rabbitmq", daemon=True)
        self._thread.start()
        return loop

    def _link(
        self, purpose: str, set_up: Callable[[Connection], Coroutine[Any, Any, None]]
    ) -> Link:
        return Link(self._parameters, purpose=purpose, set_up=set_up)

    def _begin(self) -> None:
        self._spawn(self._pulse.keep())
        self._spawn(self._publishing.run())
        if not self._verify:
            self._spawn(self._declare_now_and_then())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self._tasks.add(task)  # the loop itself holds tasks only weakly
        task.add_done_callback(self._tasks.discard)
        return task

    @property
    def publisher(self) -> "RabbitBroker":
        return self

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    @property
    def vhost(self) -> str:
        return str(self._parameters.virtual_host)

    @property
    def problems(self) -> dict[str, Misconfigured]:
        """What RabbitMQ has otherwise than we declare it, by name."""
        return dict(self._problems)

    def is_ready(self) -> bool:
        """Not where a queue that it consumes is not as we declare it: it may lack its bindings."""
        consumed = {each.queue for each in self._subscribers}
        is_open = self._publishing.ready.is_set() and self._outbox.is_open
        return is_open and not consumed & self._problems.keys()

    def is_alive(self) -> bool:
        """Its thread runs and its loop turns; whether RabbitMQ is there is another question."""
        running = self._thread is None or self._thread.is_alive()
        return running and self._pulse.is_felt()

    def check(self) -> None:
        """Misconfigured or Unavailable, in one sentence, where one cannot connect."""
        parameters.check(self._parameters)

    # -- publishing

    def publish(self, message: Message, *, exchange: str = topology.EVENTS) -> Future[None]:
        return self._send(wire.event(message, exchange))

    def send(self, queue: str, message: Message) -> Future[None]:
        """Hand *message* to one queue only, as a replay does."""
        return self._send(wire.addressed(message, "", queue))

    def _send(self, parcel: wire.Parcel) -> Future[None]:
        if self._on_loop():
            confirm = Confirm()
            self._outbox.send(parcel, confirm)
            return confirm
        future: Future[None] = Future()
        future.set_running_or_notify_cancel()  # it is out of our hands: nobody can cancel it
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

    # -- declaring

    def declare(self, queues: list[topology.Queue]) -> None:
        """Unavailable while RabbitMQ is away: they are declared as soon as it is back."""
        self._queues |= {queue.name: queue for queue in queues}
        self._wait(self._declare(queues))

    async def _declare(self, queues: list[topology.Queue]) -> None:
        connection = await self._connected()
        found = await declaring.declare_queues(connection, queues, verify=self._verify)
        self._problems |= found
        for problem in found.values():
            raise problem
        for name, problem in self._problems.items():
            if name not in self._queues:  # other people's queues are not our affair
                raise problem

    async def _set_up(self, connection: Connection) -> None:
        connection.add_on_connection_blocked_callback(
            lambda _, frame: self._outbox.block(frame.method.reason or "")
        )
        connection.add_on_connection_unblocked_callback(lambda *_: self._outbox.unblock())
        if self._was_declared:  # what was there is there: publish at once, and look meanwhile
            self._mend_soon()
        else:
            await self._declare_all(connection)
            self._was_declared = True
        await self._outbox.open(connection)
        self._spawn(self._outbox.serve(connection))

    async def _declare_all(self, connection: Connection) -> None:
        queues = list(self._queues.values())
        known = self._problems
        self._problems = await declaring.declare(connection, queues, verify=self._verify)
        if self._verify and self._management_url:
            self._problems |= await asyncio.to_thread(self._different)
        for name in self._problems.keys() - known.keys():
            _log.error("broker_misconfigured", reason=str(self._problems[name]))

    def _different(self) -> declaring.Problems:
        try:
            there = management.queues(self._management_url, self._parameters)
        except GemhooksError as error:
            _log.warning("arguments_unchecked", reason=str(error))
            return {}
        found = management.differences(there, set(self._queues))
        return {name: Misconfigured(f"RabbitMQ's {sentence}") for name, sentence in found}

    def _mend_soon(self) -> None:
        """Something seems to be missing: declare everything again, but not all the time."""
        if self._mending is None or self._mending.done():
            self._mending = self._spawn(self._mend())

    async def _mend(self) -> None:
        await self._publishing.ready.wait()
        connection = self._publishing.connection
        if connection is None:
            return
        with contextlib.suppress(AMQPError, TimeoutError):
            async with asyncio.timeout(PATIENCE):
                await self._declare_all(connection)
        await asyncio.sleep(MEND_EVERY)

    async def _declare_now_and_then(self) -> None:
        """No call of ours fails where a binding is gone, or the exchange that retries return by."""
        while True:
            await asyncio.sleep(self._declare_every * random.uniform(0.8, 1.2))  # noqa: S311 - jitter
            self._mend_soon()

    async def _missing(self) -> None:
        self._mend_soon()

    # -- consuming

    def consume(self, queue: str, on_delivery: OnDelivery, *, prefetch: int) -> RabbitSubscriber:
        subscriber = RabbitSubscriber(
            queue,
            on_delivery,
            prefetch=prefetch,
            mailbox=self._mailbox,
            outbox=self._outbox,
            missing=self._missing,
            look_every=self._look_every,
        )
        self._mailbox.post(lambda: self._subscribe(subscriber))
        return subscriber

    def _subscribe(self, subscriber: RabbitSubscriber) -> None:
        self._subscribers.append(subscriber)
        if self._consuming.connection and self._consuming.ready.is_set():
            self._spawn(subscriber.serve(self._consuming.connection))
        elif not self._is_consuming:
            self._is_consuming = True
            self._spawn(self._consuming.run())

    async def _serve(self, connection: Connection) -> None:
        await self._publishing.ready.wait()  # so that the queues are declared
        for subscriber in self._subscribers:
            self._spawn(subscriber.serve(connection))

    # -- looking

    def look(self, queue: str) -> browsing.RabbitLook:
        return self._wait(self._look(queue))

    async def _look(self, queue: str) -> browsing.RabbitLook:
        connection = await self._connected()
        try:
            return await browsing.open_look(connection, queue, self._wait, self._mailbox)
        except ChannelClosedByBroker as refusal:
            raise Misconfigured(f"RabbitMQ refuses {queue}: {refusal.reply_text}.") from None

    def browse(self, queue: str, limit: int) -> list[tuple[Message, Headers]]:
        """The first messages of *queue* and their headers, left where they are."""
        look = self.look(queue)
        try:
            return [(seen.message, seen.headers) for seen in islice(look, limit)]
        finally:
            look.close()

    def dead_letter_queues(self) -> list[str]:
        known = {queue.dead_letters for queue in self._queues.values()}
        if self._management_url:
            there = management.queues(self._management_url, self._parameters)
            known |= {name for name in there if name.endswith(topology.dead_letters(""))}
        return sorted(known)

    async def _connected(self) -> Connection:
        await self._publishing.ready.wait()
        if self._publishing.connection is None:
            raise Unavailable("RabbitMQ is away")
        return self._publishing.connection

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

    # -- closing

    def close(self, *, timeout: float = 5.0) -> None:
        if self._loop.is_closed():
            return
        if self._on_loop():
            raise RuntimeError("on the broker's own loop, await aclose()")
        if self._thread and not self._thread.is_alive():  # then the loop is anybody's
            self._loop.run_until_complete(self.aclose(timeout=timeout))
            self._loop.close()
            return
        future = asyncio.run_coroutine_threadsafe(self.aclose(timeout=timeout), self._loop)
        with contextlib.suppress(TimeoutError):
            future.result(timeout + 1)
        self._stop_thread()

    async def aclose(self, *, timeout: float = 5.0) -> None:  # noqa: ASYNC109 - as close()
        """As close(), for those who live on the same loop."""
        for subscriber in self._subscribers:
            subscriber.stop()
        self._mailbox.drain()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._outbox.idle.wait()  # the copies first, then the acks that they allow
                await asyncio.gather(*(each.flush() for each in self._subscribers))
                await asyncio.gather(self._consuming.close(), self._publishing.close())
        await self._end_tasks()

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
