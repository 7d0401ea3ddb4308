"""Acknowledgements of one channel, joined where they can be."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable

from pika.channel import Channel

from gemhooks.queues.rabbitmq import rpc

GATHER = 0.003  # seconds; each wake-up of the loop takes the interpreter from a handler
TRIPS, PAUSE = 3, 0.02  # round trips before a channel is closed, and seconds between them


class Settler:
    """Settles the deliveries of one channel; on any other their tags would mean other messages.

    A channel sends a quorum queue at most 32 commands at a time, and loses those it still keeps
    when it closes: one command for many messages, and :meth:`flush` at the end, see to that.
    """

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self._loop = asyncio.get_running_loop()
        self._open: dict[int, bool] = {}  # tag: acknowledged; in the order of tags
        self._acked: deque[int] = deque()  # what the loop has not seen yet
        self._woken = False

    @property
    def unsettled(self) -> int:
        return len(self._open)

    def holds(self, tag: int) -> bool:
        """Whether it is still to be settled here."""
        return tag in self._open and self.channel.is_open

    def take(self, tag: int) -> None:
        self._open[tag] = False

    def ack(self, tag: int) -> None:
        """From any thread: with others that end soon, at once where no other is at hand."""
        self._acked.append(tag)
        if len(self._acked) >= len(self._open):
            self._wake(self._send)
        elif not self._woken:
            self._woken = True
            self._wake(self._send_soon)

    def _wake(self, call: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: the broker redelivers
            self._loop.call_soon_threadsafe(call)

    def give_back(self, tag: int) -> None:
        self._send()  # the first settlement counts
        if self.holds(tag):
            del self._open[tag]
            self.channel.basic_nack(tag, requeue=True)

    async def flush(self) -> None:
        """See that the queue has all that was settled."""
        self._send()
        for _ in range(TRIPS):
            if not self.channel.is_open:
                return
            await rpc.ask(
                self.channel, lambda done: self.channel.basic_qos(0, 1, callback=done)
            )  # any question that changes nothing any more would do
            await asyncio.sleep(PAUSE)

    def _send_soon(self) -> None:
        self._loop.call_later(GATHER, self._send)

    def _send(self) -> None:
        self._woken = False  # first: what is acknowledged from now on wakes us again
        acked = self._gathered()
        if not acked or not self.channel.is_open:  # the broker redelivers them
            return
        if last := self._through():
            self.channel.basic_ack(last, multiple=True)
        for tag in acked:
            if self._open.pop(tag, None):
                self.channel.basic_ack(tag)

    def _gathered(self) -> list[int]:
        acked = []
        while self._acked:
            tag = self._acked.popleft()
            if tag in self._open:
                self._open[tag] = True
                acked.append(tag)
        return acked

    def _through(self) -> int:
        """Forget the first ones that are acknowledged, as far as they go; the last of them."""
        last = 0
        while self._open and self._open[tag := next(iter(self._open))]:
            last = tag
            del self._open[tag]
        return last
