"""A TCP proxy with faults: what lies between us and a service, and does not always work."""

import asyncio
import socket
import ssl
import struct
import sys
import threading
from contextlib import suppress
from enum import StrEnum
from typing import Self

CHUNK = 65536
_NO_LINGER = struct.pack("ii", 1, 0)  # close() sends RST instead of FIN


class Way(StrEnum):
    """Up is to the service, down is back."""

    UP = "up"
    DOWN = "down"


class Proxy:
    """Carries connections from ``127.0.0.1:port`` to *target*, until told otherwise.

    `with Proxy(5672) as proxy:` runs it in a thread of its own. Its faults may be changed at any
    time: `refusing` resets whoever connects, `silent` holds back what comes on these ways, and all
    the service says after so many `answers`, `latency` delays each chunk by so many seconds,
    `cut()` resets all that are open. With *tls* it speaks that to who connects.
    """

    def __init__(
        self, target: int, host: str = "127.0.0.1", *, tls: ssl.SSLContext | None = None
    ) -> None:
        self.target = target  # another port from the next connection on
        self.refusing = False
        self.silent: frozenset[Way] = frozenset()
        self.answers = sys.maxsize
        self.held = False  # so far
        self.latency = 0.0
        self.port = 0
        self.connections = 0  # carried so far
        self._host = host
        self._tls = tls
        self.open: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)
        self._is_up = threading.Event()
        self._end = asyncio.Event()

    def __enter__(self) -> Self:
        self._thread.start()
        self._is_up.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()
        self._loop.close()

    def cut(self) -> None:
        """Reset all that are open."""
        self._loop.call_soon_threadsafe(self._cut)

    def _cut(self) -> None:
        for each in self.open:
            _reset(each)

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._carry, "127.0.0.1", self.port, ssl=self._tls)
        self.port = server.sockets[0].getsockname()[1]
        self._is_up.set()
        await self._end.wait()
        server.close()
        self._cut()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # then their sockets are closed

    async def _carry(self, client: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        try:
            service, forth = await self._reach()
        except (OSError, asyncio.CancelledError):
            _reset(back)
            return
        self.connections += 1
        self.open |= {back, forth}
        # Python 3.11 logs a handler that was cancelled as one that failed.
        with suppress(asyncio.CancelledError):
            await asyncio.gather(
                self._pass(client, forth, Way.UP), self._pass(service, back, Way.DOWN)
            )
        self.open -= {back, forth}
        for writer in (back, forth):
            writer.close()

    async def _reach(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self.refusing:
            raise ConnectionRefusedError
        return await asyncio.open_connection(self._host, self.target)

    async def _pass(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, way: Way
    ) -> None:
        try:
            while data := await source.read(CHUNK):
                await asyncio.sleep(self.latency)
                while self._holds(way):
                    self.held = True
                    await asyncio.sleep(0.02)
                self.answers -= way is Way.DOWN
                sink.write(data)
                await sink.drain()
            if sink.can_write_eof():
                sink.write_eof()
        except OSError:
            _reset(sink)

    def _holds(self, way: Way) -> bool:
        return way in self.silent or (way is Way.DOWN and not self.answers)


def _reset(writer: asyncio.StreamWriter) -> None:
    plug: socket.socket | None = writer.get_extra_info("socket")
    if plug is not None and plug.fileno() >= 0:
        plug.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
    writer.transport.abort()
