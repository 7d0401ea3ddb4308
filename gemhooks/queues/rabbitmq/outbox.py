"""The publishing channel: every message out there has a future that ends in bounded time."""

import asyncio
import contextlib
import itertools
import re
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass

from pika import BasicProperties
from pika.channel import Channel
from pika.exceptions import AMQPError, ChannelClosedByBroker
from pika.frame import Method
from pika.spec import Basic

from gemhooks import topology
from gemhooks.errors import PublishFailed
from gemhooks.queues.rabbitmq import rpc
from gemhooks.queues.rabbitmq.streams import Connection
from gemhooks.queues.rabbitmq.wire import Parcel

MOST_UNSENT = 64 << 20  # bytes that wait for a broker that reads too slowly, or not at all
REFUSED = 30.0  # seconds; each message to a missing exchange closes the channel of all others
NO_EXCHANGE = re.compile(r"exchange '(.*)' in vhost")  # missing, or not ours to write to


@dataclass(slots=True)
class _InFlight:
    future: Future[None]
    exchange: str
    size: int
    deadline: float
    returned: str = ""

    def fail(self, reason: str, detail: str = "") -> None:
        self.future.set_exception(PublishFailed(reason, detail))


class Outbox:
    """Lives on the loop's thread, all of it."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, timeout: float, on_trouble: Callable[[], None]
    ) -> None:
        """*on_trouble* is called when something that should be there seems to be missing."""
        self._loop = loop
        self._on_trouble = on_trouble
        self._timeout = timeout
        self._channel: Channel | None = None
        self._connection: Connection | None = None
        self._tags: Iterator[int] = itertools.count(1)
        self._in_flight: dict[int, _InFlight] = {}  # in the order of tags, so of deadlines too
        self._sweeper: asyncio.TimerHandle | None = None
        self._blocked = ""
        self._refused: dict[str, tuple[str, float]] = {}  # why, and until when, by exchange
        self._closed = asyncio.Event()
        self.idle = asyncio.Event()
        self.idle.set()

    @property
    def is_open(self) -> bool:
        return self._channel is not None and not self._blocked

    async def open(self, connection: Connection) -> None:
        channel = await rpc.open_channel(connection)
        await rpc.ask(channel, lambda done: channel.confirm_delivery(self._confirmed, done))
        channel.add_on_return_callback(self._returned)
        channel.add_on_close_callback(lambda _, reason: self._close(reason))
        self._tags = itertools.count(1)
        self._blocked = ""
        self._channel, self._connection = channel, connection
        self._closed = asyncio.Event()

    async def serve(self, connection: Connection) -> None:
        """Open the channel again, at once, whenever only the channel was closed."""
        while connection.is_open:
            await self._closed.wait()
            with contextlib.suppress(AMQPError):
                if connection.is_open:
                    await self.open(connection)

    def send(self, parcel: Parcel, future: Future[None]) -> None:
        if self._blocked:
            future.set_exception(PublishFailed("blocked", self._blocked))
        elif not (self._channel and self._channel.is_open and self._connection):
            future.set_exception(PublishFailed("disconnected"))
        elif self._connection.unsent > MOST_UNSENT:
            future.set_exception(PublishFailed("blocked", "RabbitMQ does not read"))
        elif why := self._refusal_of(parcel.exchange):
            future.set_exception(PublishFailed("refused", why))
        else:
            self._write(self._connection, self._channel, parcel, future)

    def _refusal_of(self, exchange: str) -> str:
        """Why it was refused a moment ago; empty where it was not."""
        why, until = self._refused.get(exchange, ("", 0.0))
        return why if self._loop.time() < until else ""

    def _write(
        self, connection: Connection, channel: Channel, parcel: Parcel, future: Future[None]
    ) -> None:
        longest: int = connection.params.frame_max
        # An id may be under way twice, so a return is told by the tag.
        tag = next(self._tags)
        try:
            frames = parcel.encode(channel.channel_number, str(tag), longest=longest)
        except Exception as error:  # nothing was written
            self._tags = itertools.count(tag)
            future.set_exception(PublishFailed("failed", type(error).__name__))
            return
        connection.write(frames)
        deadline = self._loop.time() + self._timeout
        self._remember(tag, _InFlight(future, parcel.exchange, len(parcel.body), deadline))

    def _remember(self, tag: int, entry: _InFlight) -> None:
        self._in_flight[tag] = entry
        self.idle.clear()
        if self._sweeper is None:
            self._sweeper = self._loop.call_at(entry.deadline, self._sweep)

    def _sweep(self) -> None:
        """One timer for all: the oldest in flight has the nearest deadline."""
        self._sweeper = None
        now = self._loop.time()
        late = itertools.takewhile(
            lambda tag: self._in_flight[tag].deadline <= now, self._in_flight
        )
        for entry in [self._in_flight.pop(tag) for tag in list(late)]:
            entry.fail("timeout")
        for entry in self._in_flight.values():
            self._sweeper = self._loop.call_at(entry.deadline, self._sweep)
            break
        self._rest()

    def _confirmed(self, frame: Method[Basic.Ack | Basic.Nack]) -> None:
        method = frame.method
        for entry in self._take(method.delivery_tag or 0, multiple=bool(method.multiple)):
            if isinstance(method, Basic.Nack):
                entry.fail("nacked")
                self._on_trouble()
            elif entry.returned:
                entry.fail("returned", entry.returned)
                self._on_trouble()
            else:
                entry.future.set_result(None)
        self._rest()

    def _take(self, tag: int, *, multiple: bool) -> list[_InFlight]:
        if not multiple:
            entry = self._in_flight.pop(tag, None)  # None: its deadline had passed
            return [entry] if entry else []
        done = list(itertools.takewhile(lambda other: other <= tag, self._in_flight))
        return [self._in_flight.pop(other) for other in done]

    def _returned(
        self, _channel: Channel, method: Basic.Return, properties: BasicProperties, _body: bytes
    ) -> None:
        """Comes before the confirm, which is positive all the same."""
        entry = self._in_flight.get(int(properties.correlation_id or 0))
        if entry:
            entry.returned = f"{method.reply_code} {method.reply_text}"

    def block(self, reason: str) -> None:
        """The broker is short of memory or disk and reads nothing more from us."""
        self._blocked = reason or "blocked"
        self._fail_all("blocked", self._blocked)

    def unblock(self) -> None:
        self._blocked = ""

    def _close(self, reason: BaseException) -> None:
        self._channel = None
        if isinstance(reason, ChannelClosedByBroker):
            self._on_trouble()
            self._fail_refused(reason.reply_text)
        if _is_too_large(reason):
            self._fail_largest(str(reason))
        self._fail_all("disconnected", type(reason).__name__)
        self._closed.set()

    def _fail_refused(self, why: str) -> None:
        """Those to somebody's exchange that RabbitMQ says is not there, or not ours to use."""
        found = NO_EXCHANGE.search(why)
        if found is None or (exchange := found[1]) in topology.OURS:
            return  # it is declared again
        self._refused[exchange] = why, self._loop.time() + REFUSED
        for tag in [tag for tag, each in self._in_flight.items() if each.exchange == exchange]:
            self._in_flight.pop(tag).fail("refused", why)

    def _fail_largest(self, detail: str) -> None:
        """The broker does not say which; the others in flight are innocent."""
        largest = max((entry.size for entry in self._in_flight.values()), default=0)
        for tag in [tag for tag, entry in self._in_flight.items() if entry.size == largest]:
            self._in_flight.pop(tag).fail("too_large", detail)

    def _fail_all(self, reason: str, detail: str) -> None:
        entries = list(self._in_flight.values())
        self._in_flight.clear()
        for entry in entries:
            entry.fail(reason, detail)
        self._rest()

    def _rest(self) -> None:
        if not self._in_flight:
            self.idle.set()


def _is_too_large(reason: BaseException) -> bool:
    text = str(reason)
    return "message size" in text and "larger than" in text
