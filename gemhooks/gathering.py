"""One thread that does many things at once: all that came while it did the last ones."""

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

import structlog

Item = TypeVar("Item")

MOST_AT_ONCE = 256

log = structlog.get_logger()


class Gathering(Generic[Item]):
    """Calls *work* on its own thread with what was put, in order, in lists as long as may be."""

    def __init__(self, work: Callable[[list[Item]], None], *, name: str) -> None:
        self._work = work
        self.waiting: deque[Item] = deque()
        self._something = threading.Event()
        self._closed = False
        self._thread = threading.Thread(target=self._loop, name=name, daemon=True)
        self._thread.start()

    def put(self, item: Item) -> None:
        self.waiting.append(item)
        self._something.set()

    def is_alive(self) -> bool:
        """False where only a new process helps."""
        return self._closed or self._thread.is_alive()

    def close(self, timeout: float) -> bool:
        """Do what waits, then end; False where that takes longer than *timeout* seconds."""
        self._closed = True
        self._something.set()
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _loop(self) -> None:
        while self.waiting or not self._closed:
            if self.waiting:
                self._do(
                    [self.waiting.popleft() for _ in range(min(len(self.waiting), MOST_AT_ONCE))]
                )
            else:
                self._something.wait()
                self._something.clear()

    def _do(self, items: list[Item]) -> None:
        try:
            self._work(items)
        except Exception:  # the thread must do the next ones
            log.exception("work_failed", thread=self._thread.name)
