"""The broker's own limit: persistent publishing with confirms, so many in flight, nothing else."""

import time
from typing import Any

import pika
from pika.adapters.select_connection import SelectConnection
from pika.channel import Channel
from pika.frame import Method

from bench import load

SECONDS = 3.0


class _Publisher:
    def __init__(self, amqp_url: str, queue: str, in_flight: int) -> None:
        self._queue, self._in_flight = queue, in_flight
        self._body = load.body(0)
        self._properties = pika.BasicProperties(delivery_mode=2, content_type="application/json")
        self.confirmed = self._published = 0
        self.started = self.ended = 0.0
        self.connection = SelectConnection(
            pika.URLParameters(amqp_url),
            on_open_callback=lambda each: each.channel(None, self._on),
            on_close_callback=lambda each, _: each.ioloop.stop(),
        )

    def _on(self, channel: Channel) -> None:
        self._channel = channel
        channel.confirm_delivery(self._ack, lambda _: self._begin())

    def _begin(self) -> None:
        self.started = time.perf_counter()
        self._fill()

    def _fill(self) -> None:
        while self._published - self.confirmed < self._in_flight:
            self._channel.basic_publish("", self._queue, self._body, self._properties, True)  # noqa: FBT003
            self._published += 1

    def _ack(self, frame: Method[Any]) -> None:
        tag = frame.method.delivery_tag
        self.confirmed = tag if frame.method.multiple else self.confirmed + 1
        self.ended = time.perf_counter()
        if self.ended - self.started < SECONDS:
            self._fill()
        elif not self.connection.is_closing:
            self.connection.close()


def rate(amqp_url: str, queue: str, in_flight: int) -> float:
    """Confirmed messages per second."""
    publisher = _Publisher(amqp_url, queue, in_flight)
    publisher.connection.ioloop.start()
    return publisher.confirmed / (publisher.ended - publisher.started)
