"""Tells the results exchange, and waits until the broker has it."""

from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future

from gemhooks import topology
from gemhooks.messages import CONFIRM_TIMEOUT, Message, Publisher, confirm

MOST_UNCONFIRMED = 100


def announce(
    publisher: Publisher, messages: Iterable[Message], *, timeout: float = CONFIRM_TIMEOUT
) -> None:
    """Publish all *messages* in their order; PublishFailed where one is not confirmed.

    Announce before recording: a crash between the two announces twice, never not at all.
    """
    unconfirmed: deque[Future[None]] = deque()
    for message in messages:
        unconfirmed.append(publisher.publish(message, exchange=topology.RESULTS))
        if len(unconfirmed) >= MOST_UNCONFIRMED:
            confirm(unconfirmed.popleft(), timeout=timeout)
    for future in unconfirmed:
        confirm(future, timeout=timeout)
