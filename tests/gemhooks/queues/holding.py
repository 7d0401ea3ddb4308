"""A process that takes messages and never settles them: `python -m ... URL QUEUE`."""

import os
import sys
import threading

import structlog

from gemhooks.messages import Broker, Delivery
from gemhooks.queues.rabbitmq import RabbitBroker
from gemhooks.queues.sqlite import SqliteBroker

STDOUT = 1


def open_broker(url: str) -> Broker:
    return SqliteBroker(url) if url.startswith("sqlite:") else RabbitBroker(url)


def _tell(delivery: Delivery) -> None:
    os.write(STDOUT, f"{delivery.message.id}\n".encode())


def main(url: str, queue: str) -> None:
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    open_broker(url).consume(queue, _tell, prefetch=10)
    threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
