"""What passes by, seen through a queue of one's own that ends with us: nobody misses anything."""

import queue
from collections.abc import Callable, Generator
from contextlib import closing
from functools import partial

from gemhooks import topology
from gemhooks.errors import Misconfigured
from gemhooks.messages import Delivery, Message
from gemhooks.queues import sqlite_rows as rows
from gemhooks.queues.sqlite import SqliteBroker, path_of

LOOKED_AT = 100  # messages at hand
LONGEST_DEAFNESS = 1.0  # seconds


def bindings() -> tuple[tuple[str, str], ...]:
    """Of events, only what a durable queue takes anyway: all else must go to the unrouted ones.

    With ``#``, an event that nobody takes would be confirmed because a listener had it.
    """
    events = (each for built_in in topology.BUILT_IN for each in built_in.bindings)
    return (*(each for each in events if each[0] == topology.EVENTS), (topology.RESULTS, "#"))


def listen(url: str, on_ready: Callable[[], None]) -> Generator[Message]:
    """Every event and result after *on_ready* was called, until the generator is closed.

    Raises Misconfigured where the broker was never used, Unavailable when it is away or goes away.
    """
    if url.startswith("sqlite"):
        return _file(url, on_ready)
    if url.partition(":")[0] not in ("amqp", "amqps"):
        raise Misconfigured("GEMHOOKS_BROKER_URL must begin with amqp://, amqps:// or sqlite:///.")
    from gemhooks.queues.rabbitmq import listening  # noqa: PLC0415 - pika only when needed

    return listening.listen(url, bindings(), on_ready)


def _file(url: str, on_ready: Callable[[], None]) -> Generator[Message]:
    path = path_of(url)
    if not path.exists():
        raise Misconfigured(
            f"there is no queue {path} yet: start the receiver first, or go to its folder."
        )
    broker = SqliteBroker(url)
    name = f"{rows.LISTENER}{broker.owner().name}"
    taken: queue.SimpleQueue[Delivery] = queue.SimpleQueue()
    try:
        _forget_the_dead(broker)
        broker.declare([topology.Queue(name, bindings())])
        broker.consume(name, taken.put, prefetch=LOOKED_AT)
        on_ready()
        while True:
            # Never for ever: a signal that comes just before a wait is seen only after it.
            try:
                delivery = taken.get(timeout=LONGEST_DEAFNESS)
            except queue.Empty:
                continue
            delivery.ack()
            yield delivery.message
    finally:
        broker.write(partial(rows.forget, queue=name))
        broker.close()


def _forget_the_dead(broker: SqliteBroker) -> None:
    """A listener that was killed has left its bindings, and rows that nobody reads."""
    with closing(broker.connect()) as db:
        found = rows.listeners(db)
    for name in found:
        if broker.owner().is_dead(name.removeprefix(rows.LISTENER)):
            broker.write(partial(rows.forget, queue=name))
