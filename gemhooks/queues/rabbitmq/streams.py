"""pika's connection over a transport of the loop's own.

pika's own one asks the kernel four times for each frame. Here what is written in one turn of the
loop goes out at once, and so does what :class:`Outbox` writes beside pika; and deliveries come in
beside it, see :mod:`gemhooks.queues.rabbitmq.intake`.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable, Coroutine
from typing import Any

from pika.adapters.asyncio_connection import AsyncioConnection
from pika.adapters.utils import nbio_interface as nbio
from pika.connection import Parameters

from gemhooks import forks
from gemhooks.queues.rabbitmq import arrivals
from gemhooks.queues.rabbitmq.intake import Intake, Take, Takers

Done = Callable[[Any], None]
Opened = Callable[[Callable[[bytes], None]], Intake]  # for a new stream; is told who reads the rest


class Connection(AsyncioConnection):
    """An AsyncioConnection to which others may write whole frames, and which they may listen to."""

    bytes_received: int  # pika's; its heartbeat checker tells by it that the broker lives

    def __init__(
        self,
        parameters: Parameters,
        *,
        on_open: Callable[[Any], None],
        on_open_error: Callable[[Any, BaseException], None],
        on_close: Callable[[Any, BaseException], None],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._takers: Takers = {}
        self._services = Services(loop, self._intake)
        super().__init__(parameters, on_open, on_open_error, on_close, self._services)

    @property
    def unsent(self) -> int:
        """How many bytes RabbitMQ has not taken yet."""
        stream = self._services.stream
        return stream.get_write_buffer_size() if stream else 0

    def write(self, frames: bytes) -> None:
        """Send *frames* after all that pika has sent; nowhere where the connection is lost."""
        if self._services.stream:
            self._services.stream.write(frames)

    async def end(self) -> None:
        """Close its socket, whatever pika is doing; before the loop stops, for it is the loop's."""
        await self._services.end()
        # Only now: in the middle of a handshake pika's own close() fails an assertion of its own.
        if not self.is_closed and not self.is_closing:
            self.close()

    def divert(self, channel: int, consumer_tag: str, take: Take) -> None:
        """Give *take* the consumer's deliveries, those that we can read, in place of pika."""
        self._takers[channel] = arrivals.start(consumer_tag), take

    def divert_no_more(self, channel: int) -> None:
        self._takers.pop(channel, None)

    def _intake(self, rest: Callable[[bytes], None]) -> Intake:
        return Intake(self._takers, rest=rest, taken=self._count)

    def _count(self, taken: int) -> None:
        self.bytes_received += taken


class Stream(nbio.AbstractStreamTransport, asyncio.Protocol):
    """What pika writes to, and what its protocol hears from."""

    def __init__(self, loop: asyncio.AbstractEventLoop, intake: Opened) -> None:
        self._loop = loop
        self._intake = intake(self._read)
        self._pieces: list[bytes] = []
        self._size = 0  # of them all
        self._transport: asyncio.Transport | None = None
        self._protocol: Any = None
        self._error: BaseException | None = None
        self.lost = asyncio.Event()

    def begin(self, protocol: nbio.AbstractStreamProtocol) -> None:
        """Introduce us to pika; until it writes its first bytes, RabbitMQ says nothing."""
        self._protocol = protocol
        protocol.connection_made(self)

    # -- for pika

    def write(self, data: bytes) -> None:
        if not self._pieces:
            self._loop.call_soon(self._flush)
        self._pieces.append(data)
        self._size += len(data)

    def _flush(self) -> None:
        data = b"".join(self._pieces)
        self._clear()
        if self._transport and not self._transport.is_closing():
            self._transport.write(data)

    def _clear(self) -> None:
        self._pieces.clear()
        self._size = 0

    def abort(self) -> None:
        if self._transport:
            self._transport.abort()

    async def end(self) -> None:
        self._error = self._error or ConnectionAbortedError()  # pika wants a reason
        self.abort()
        if self._transport:
            await self.lost.wait()

    def get_protocol(self) -> nbio.AbstractStreamProtocol:
        protocol: nbio.AbstractStreamProtocol = self._protocol
        return protocol

    def get_write_buffer_size(self) -> int:
        unsent = self._transport.get_write_buffer_size() if self._transport else 0
        return unsent + self._size

    # -- for the loop

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        try:
            self._intake.feed(data)
        except Exception as error:  # what pika cannot read ends its connection
            self._error = error
            self.abort()

    def _read(self, data: bytes) -> None:
        self._protocol.data_received(data)

    def eof_received(self) -> bool:
        return bool(self._protocol and self._protocol.eof_received())

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set()
        self._clear()
        if self._protocol:
            self._protocol.connection_lost(self._error or exc)


class Services(nbio.AbstractIOServices):
    """The loop, as pika asks for it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, intake: Opened) -> None:
        self._loop = loop
        self._intake = intake
        self._works: set[_Work] = set()
        self.stream: Stream | None = None

    async def end(self) -> None:
        """Cancel what runs, and close the socket that there may be by now."""
        await asyncio.gather(*(work.end() for work in self._works))
        if self.stream:
            await self.stream.end()

    def _begin(self, work: Coroutine[Any, Any, Any], on_done: Done) -> "_Work":
        begun = _Work(self._loop, work, on_done)
        self._works.add(begun)
        return begun

    def get_native_ioloop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    def close(self) -> None:
        raise NotImplementedError("the loop is not pika's")

    run = stop = close

    def add_callback_threadsafe(self, callback: Callable[..., None]) -> None:
        self._loop.call_soon_threadsafe(callback)

    def call_later(self, delay: float, callback: Callable[..., None]) -> Any:
        return self._loop.call_later(delay, callback)  # it has the one method that is asked for

    def getaddrinfo(  # noqa: PLR0917 - pika's
        self,
        host: Any,
        port: Any,
        on_done: Done,
        family: int = 0,
        socktype: int = 0,
        proto: int = 0,
        flags: int = 0,
    ) -> nbio.AbstractIOReference:
        asked = self._loop.getaddrinfo(
            host, port, family=family, type=socktype, proto=proto, flags=flags
        )
        return self._begin(asked, on_done)

    def connect_socket(
        self, sock: socket.socket, resolved_addr: Any, on_done: Done
    ) -> nbio.AbstractIOReference:
        return self._begin(self._loop.sock_connect(sock, resolved_addr), on_done)

    def create_streaming_connection(
        self,
        protocol_factory: Callable[[], nbio.AbstractStreamProtocol],
        sock: socket.socket,
        on_done: Done,
        ssl_context: ssl.SSLContext | None = None,
        server_hostname: str | None = None,
    ) -> nbio.AbstractIOReference:
        def begun(result: Any) -> None:
            if isinstance(result, BaseException) or result.lost.is_set():
                on_done(result if isinstance(result, BaseException) else ConnectionResetError())
                return
            protocol = protocol_factory()
            result.begin(protocol)
            on_done((result, protocol))

        return self._begin(self._connect(sock, ssl_context, server_hostname), begun)

    async def _connect(
        self, sock: socket.socket, context: ssl.SSLContext | None, name: str | None
    ) -> Stream:
        self.stream = stream = Stream(self._loop, self._intake)
        server_hostname = (name or "") if context else None
        forks.keep(sock)
        try:
            await self._loop.create_connection(
                lambda: stream, sock=sock, ssl=context, server_hostname=server_hostname
            )
        except BaseException:
            sock.close()  # it is ours by now
            raise
        return stream


class _Work(nbio.AbstractIOReference):
    """A coroutine that runs; *on_done* gets what it returns or raises, unless it is cancelled."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], on_done: Done
    ) -> None:
        self._on_done = on_done
        self._task = loop.create_task(work)
        self._task.add_done_callback(self._tell)

    def _tell(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled():
            self._on_done(task.exception() or task.result())

    def cancel(self) -> bool:
        return self._task.cancel()

    async def end(self) -> None:
        self._task.cancel()
        await asyncio.wait({self._task})
