"""Acknowledgements of one channel, joined where they can be."""

import asyncio

from pika.channel import Channel

from gemhooks.queues.rabbitmq import rpc

TRIPS, PAUSE = 3, 0.02  # round trips before a channel is closed, and seconds between them


class Settler:
    """Settles the deliveries of one channel; on any other their tags would mean other messages.

    A channel sends a quorum queue at most 32 commands at a time, and loses those it still keeps
    when it closes: one command for many messages, and :meth:`flush` at the end, see to that.
    """

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self._open: dict[int, bool] = {}  # tag: acknowledged; in the order of tags
        self._acked: list[int] = []

    @property
    def unsettled(self) -> int:
        return len(self._open)

    def take(self, tag: int) -> None:
        self._open[tag] = False

    def ack(self, tag: int) -> None:
        if tag not in self._open:
            return
        if not self._acked:
            asyncio.get_running_loop().call_soon(self._send)
        self._open[tag] = True
        self._acked.append(tag)

    def give_back(self, tag: int) -> None:
        if self._open.get(tag) is False and self.channel.is_open:
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

    def _send(self) -> None:
        acked, self._acked = self._acked, []
        if not self.channel.is_open:  # the broker redelivers them
            return
        last = 0
        while self._open and self._open[tag := next(iter(self._open))]:
            last = tag
            del self._open[tag]
        if last:
            self.channel.basic_ack(last, multiple=True)
        for tag in acked:
            if self._open.pop(tag, None):
                self.channel.basic_ack(tag)
