"""A temporary queue that RabbitMQ deletes with its connection."""

from collections.abc import Callable, Generator, Iterable

import pika
from pika.adapters.blocking_connection import BlockingChannel
from pika.adapters.utils.connection_workflow import AMQPConnectorException
from pika.exceptions import AMQPError, ChannelClosedByBroker

from gemhooks.errors import Misconfigured, Unavailable
from gemhooks.messages import Message
from gemhooks.queues.rabbitmq import parameters, wire

HEARTBEAT = 15  # seconds
LOOKED_AT = 100  # messages at hand
# A slow terminal misses the oldest; the broker keeps no more than this for it.
ARGUMENTS = {
    "x-queue-type": "classic",  # a virtual host may have another default
    "x-max-length": 10_000,
    "x-max-length-bytes": 64 << 20,
}


Bindings = Iterable[tuple[str, str]]
OnReady = Callable[[], None]


def listen(url: str, bindings: Bindings, on_ready: OnReady) -> Generator[Message]:
    given = parameters.parse(url, HEARTBEAT)
    try:
        connection = pika.BlockingConnection(parameters.named(given, "listener"))
    except (AMQPError, AMQPConnectorException, OSError) as error:
        raise parameters.explain(given, error) from None
    try:
        yield from _messages(connection.channel(), bindings, on_ready)
    except ChannelClosedByBroker as refusal:
        raise Misconfigured(
            f"RabbitMQ refuses to let us listen: {refusal.reply_text}; has the receiver run here?"
        ) from None
    except (AMQPError, OSError) as error:
        raise Unavailable(f"RabbitMQ went away: {type(error).__name__}") from None
    finally:
        if connection.is_open:
            connection.close()


def _messages(
    channel: BlockingChannel, bindings: Bindings, on_ready: OnReady
) -> Generator[Message]:
    channel.basic_qos(prefetch_count=LOOKED_AT)
    declared = channel.queue_declare("", exclusive=True, auto_delete=True, arguments=ARGUMENTS)
    queue = declared.method.queue
    for exchange, pattern in bindings:
        channel.queue_bind(queue, exchange, pattern)
    on_ready()
    for method, properties, body in channel.consume(queue, exclusive=True):
        yield wire.read(method, properties, body)
        channel.basic_ack(method.delivery_tag or 0)
