"""Parts for tests of receivers and consumers."""

from concurrent.futures import Future

from gemhooks import topology
from gemhooks.messages import Message


class MemoryPublisher:
    """Keeps what is published; *error* is what every publish ends with, *silent* leaves it open."""

    def __init__(self, *, error: Exception | None = None, silent: bool = False) -> None:
        self.error = error
        self.silent = silent
        self.messages: list[Message] = []

    def publish(self, message: Message, *, exchange: str = topology.EVENTS) -> Future[None]:
        future: Future[None] = Future()
        if self.silent:
            return future
        if self.error is not None:
            future.set_exception(self.error)
            return future
        self.messages.append(message)
        future.set_result(None)
        return future
