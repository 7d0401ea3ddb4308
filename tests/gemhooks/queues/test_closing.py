"""A broker that is closed before RabbitMQ has answered."""

import gc
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest

from gemhooks.queues.rabbitmq import RabbitBroker
from tests.gemhooks.queues.helpers import consume, eventually
from tests.services.proxy import Proxy

STEPS = [0, 1, 2, 3, 5, 8]  # from the first word of the handshake to the queues' declaration


def through(proxy: Proxy, url: str) -> str:
    parts = urlsplit(url)
    place = f"{parts.username}:{parts.password}@127.0.0.1:{proxy.port}"
    return urlunsplit(parts._replace(netloc=place))


def sockets() -> set[str]:
    """Those that this process has open."""
    gc.collect()
    found = set[str]()
    for each in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # it was closed meanwhile
            found.add(str(each.readlink()))
    return {each for each in found if each.startswith("socket:")}


@pytest.mark.parametrize("step", STEPS)
def test_no_socket_stays_open_wherever_the_broker_fell_silent(amqp_url: str, step: int) -> None:
    before = sockets()
    with Proxy(urlsplit(amqp_url).port or 5672) as proxy:
        proxy.answers = step
        broker = RabbitBroker(through(proxy, amqp_url))
        consume(broker, "gemhooks.interactions")
        eventually(lambda: proxy.held)
        broker.close(timeout=0.1)

    eventually(lambda: sockets() <= before, why="none of them is left")
