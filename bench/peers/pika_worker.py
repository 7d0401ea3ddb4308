"""pika alone: no parsing, no ledger, no log; the limit of what we are built on."""

import os

import pika
from pika.adapters.select_connection import SelectConnection

from bench.peers.counting import Count

count = Count()


def on_message(channel, method, properties, body) -> None:  # noqa: ANN001
    count.hit()
    channel.basic_ack(method.delivery_tag)


def on_channel(channel) -> None:  # noqa: ANN001
    channel.basic_qos(prefetch_count=int(os.environ["PREFETCH"]))
    channel.basic_consume(os.environ["QUEUE"], on_message)


connection = SelectConnection(
    pika.URLParameters(os.environ["AMQP_URL"]),
    on_open_callback=lambda each: each.channel(on_open_callback=on_channel),
)
connection.ioloop.start()
