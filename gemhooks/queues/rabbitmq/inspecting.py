"""Looks at exchanges and queues without declaring any: a passive declaration only asks."""

from collections.abc import Callable, Iterator, Sequence

import pika
from pika.adapters.blocking_connection import BlockingChannel
from pika.adapters.utils.connection_workflow import AMQPConnectorException
from pika.exceptions import AMQPConnectionError, AMQPError, ChannelClosedByBroker

from gemhooks import topology
from gemhooks.errors import GemhooksError, Unavailable
from gemhooks.queues.rabbitmq import management, parameters
from gemhooks.queues.states import Inspection, QueueState

HEARTBEAT = 10  # seconds
NOT_FOUND = 404


def inspect(url: str, queues: Sequence[str], *, management_url: str) -> Inspection:
    """Misconfigured or Unavailable, in one sentence, where RabbitMQ can't be asked."""
    parsed = parameters.parse(url, HEARTBEAT)
    names = [topology.UNROUTED, *map(topology.retry_name, topology.RUNGS)]
    names += [each for queue in queues for each in (queue, topology.dead_letters(queue))]
    try:
        with pika.BlockingConnection(parsed) as connection:
            missing = [name for name, *_ in topology.exchanges() if not _exists(connection, name)]
            states = {name: _state(connection, name) for name in names}
    except (AMQPConnectionError, AMQPConnectorException, OSError) as error:
        raise parameters.explain(parsed, error) from None
    except AMQPError as error:
        raise Unavailable(f"RabbitMQ ended the conversation ({type(error).__name__})") from None
    missing += [name for name, state in states.items() if state is None]
    return Inspection(
        {name: state for name, state in states.items() if state},
        missing=tuple(dict.fromkeys(missing)),
        different=tuple(_differences(management_url, parsed, set(queues))),
        arguments_checked=bool(management_url),
    )


def _exists(connection: pika.BlockingConnection, exchange: str) -> bool:
    return _asked(connection, lambda channel: channel.exchange_declare(exchange, passive=True))


def _asked(connection: pika.BlockingConnection, ask: Callable[[BlockingChannel], object]) -> bool:
    """On a channel of its own: what is missing closes the channel."""
    channel = connection.channel()
    try:
        ask(channel)
    except ChannelClosedByBroker as refusal:
        if refusal.reply_code == NOT_FOUND:
            return False
        raise
    channel.close()
    return True


def _state(connection: pika.BlockingConnection, queue: str) -> QueueState | None:
    found: list[QueueState] = []

    def ask(channel: BlockingChannel) -> None:
        told = channel.queue_declare(queue, passive=True).method
        found.append(QueueState(told.message_count or 0, told.consumer_count or 0))

    return found[0] if _asked(connection, ask) else None


def _differences(url: str, parsed: pika.URLParameters, queues: set[str]) -> Iterator[str]:
    if not url:
        return
    try:
        there, exchanges = management.queues(url, parsed), management.exchanges(url, parsed)
    except GemhooksError as error:
        yield str(error)
        return
    yield from (sentence for _, sentence in management.differences(there, queues))
    for name, _, ours in topology.exchanges():
        theirs = exchanges.get(name, ours)
        if any(theirs.get(key) != value for key, value in ours.items()):
            yield f"{name} has {dict(theirs)} where {ours} is needed."
