"""Fills a queue with what a contender eats, pipelined and confirmed."""

import json
import uuid
from collections.abc import Callable
from typing import Any

import pika
from pika.adapters.select_connection import SelectConnection
from pika.channel import Channel
from pika.frame import Method

from bench import load

IN_FLIGHT = 500
Content = tuple[pika.BasicProperties, bytes]


def plain(number: int) -> Content:
    """The event as the receiver queues it."""
    properties = pika.BasicProperties(
        delivery_mode=2,
        content_type="application/json",
        message_id=f"msg_{uuid.uuid4()}",
        type="interaction.completed",
        timestamp=1,
    )
    return properties, load.body(number)


def celery(number: int) -> Content:
    """Celery's message protocol 2."""
    task = str(uuid.uuid4())
    headers = {"lang": "py", "task": "handle", "id": task, "root_id": task, "parent_id": None}
    properties = pika.BasicProperties(
        delivery_mode=2,
        content_type="application/json",
        content_encoding="utf-8",
        correlation_id=task,
        headers=headers | {"retries": 0, "eta": None, "expires": None, "group": None},
    )
    embedded = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}
    return properties, json.dumps([[load.body(number).decode()], {}, embedded]).encode()


def dramatiq(queue: str) -> Callable[[int], Content]:
    """Dramatiq's message as JSON."""

    def make(number: int) -> Content:
        message = {
            "queue_name": queue,
            "actor_name": "handle",
            "args": [load.body(number).decode()],
            "kwargs": {},
            "options": {},
            "message_id": str(uuid.uuid4()),
            "message_timestamp": 1,
        }
        return pika.BasicProperties(delivery_mode=2), json.dumps(message).encode()

    return make


class _Filler:
    def __init__(
        self, amqp_url: str, queue: str, count: int, make: Callable[[int], Content]
    ) -> None:
        self._queue, self._count, self._make = queue, count, make
        self._published = self._confirmed = 0
        self.connection = SelectConnection(
            pika.URLParameters(amqp_url),
            on_open_callback=lambda each: each.channel(None, self._on),
            on_close_callback=lambda each, _: each.ioloop.stop(),
        )

    def _on(self, channel: Channel) -> None:
        self._channel = channel
        channel.confirm_delivery(self._ack, lambda _: self._fill())

    def _fill(self) -> None:
        room = IN_FLIGHT - (self._published - self._confirmed)
        for _ in range(min(room, self._count - self._published)):
            properties, body = self._make(self._published)
            self._channel.basic_publish("", self._queue, body, properties)
            self._published += 1

    def _ack(self, frame: Method[Any]) -> None:
        tag = frame.method.delivery_tag
        self._confirmed = tag if frame.method.multiple else self._confirmed + 1
        if self._confirmed < self._count:
            self._fill()
        elif not self.connection.is_closing:
            self.connection.close()


def fill(amqp_url: str, queue: str, count: int, make: Callable[[int], Content]) -> None:
    """Put *count* messages into *queue*, which is there."""
    _Filler(amqp_url, queue, count, make).connection.ioloop.start()
