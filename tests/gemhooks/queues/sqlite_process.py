"""Processes for the tests to kill: `python sqlite_process.py publish|hold|drain URL`."""

import os
import sys
import threading
import time
from collections import deque
from concurrent.futures import Future
from itertools import count

from gemhooks.messages import Delivery, Message
from gemhooks.queues.sqlite import SqliteBroker

STDOUT = 1
QUEUE = "gemhooks.batches"


def _tell(text: str) -> None:
    os.write(STDOUT, f"{text}\n".encode())  # one write: whole lines, or none, when killed


def publish(broker: SqliteBroker) -> None:
    """Publish for ever, ten at a time, and tell each id once it was confirmed."""
    pending: deque[tuple[str, Future[None]]] = deque()
    for number in count():
        name = f"{os.getpid()}-{number}"
        pending.append((name, broker.publish(Message(name, "batch.succeeded", b"{}"))))
        if len(pending) == 10:
            confirmed, future = pending.popleft()
            future.result()
            _tell(confirmed)


def hold(broker: SqliteBroker) -> None:
    """Take messages, tell their ids, and never settle them."""
    broker.consume(QUEUE, lambda delivery: _tell(delivery.message.id), prefetch=10)
    threading.Event().wait()


def drain(broker: SqliteBroker) -> None:
    """Handle messages until there are no more, telling the id of each."""

    def handle(delivery: Delivery) -> None:
        _tell(delivery.message.id)
        delivery.ack()

    broker.consume(QUEUE, handle, prefetch=5)
    while broker.depth(QUEUE):
        time.sleep(0.02)
    broker.close()


ROLES = {"publish": publish, "hold": hold, "drain": drain}

if __name__ == "__main__":
    ROLES[sys.argv[1]](SqliteBroker(sys.argv[2]))
