"""Whether a vhost really works: it takes connections a moment before its queues can be trusted."""

import pika
from pika.exceptions import AMQPError

_NAME = "probe"


def carries_messages(url: str) -> bool:
    """Send a message through a quorum queue of *url* and take it out again."""
    try:
        connection = pika.BlockingConnection(pika.URLParameters(url))
    except (AMQPError, OSError):
        return False
    try:
        return _round_trip(connection)
    except AMQPError:
        return False
    finally:
        if connection.is_open:
            connection.close()


def _round_trip(connection: pika.BlockingConnection) -> bool:
    channel = connection.channel()
    channel.queue_declare(_NAME, durable=True, arguments={"x-queue-type": "quorum"})
    channel.confirm_delivery()
    channel.basic_publish("", _NAME, b"x")
    method, _, _ = channel.basic_get(_NAME, auto_ack=True)
    channel.queue_delete(_NAME)
    return method is not None
