"""Tells the results exchange, and waits until the broker has it."""

from collections import deque
from collections.abc import Iterable
from concurrent.futures import CancelledError, Future

from gemhooks import topology
from gemhooks.errors import PublishFailed, Retry
from gemhooks.messages import Message, Publisher

PUBLISH_TIMEOUT = 30.0  # seconds; the publisher itself gives up long before
MOST_UNCONFIRMED = 100


def announce(
    publisher: Publisher, messages: Iterable[Message], *, timeout: float = PUBLISH_TIMEOUT
) -> None:
    """Publish all *messages* in their order; Retry where one is not confirmed.

    Announce before recording: a crash between the two announces twice, never not at all.
    """
    unconfirmed: deque[Future[None]] = deque()
    for message in messages:
        unconfirmed.append(publisher.publish(message, exchange=topology.RESULTS))
        if len(unconfirmed) >= MOST_UNCONFIRMED:
            _confirmed(unconfirmed.popleft(), timeout)
    for future in unconfirmed:
        _confirmed(future, timeout)


def _confirmed(future: Future[None], timeout: float) -> None:
    try:
        future.result(timeout)
    except PublishFailed as error:
        raise Retry(f"the result was not published: {error.reason}") from error
    except (TimeoutError, CancelledError):
        raise Retry("the result was not published: timeout") from None
