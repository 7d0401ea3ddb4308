"""Work for the loop's thread from any thread, handed over in batches."""

import asyncio
from collections import deque
from collections.abc import Callable
from threading import Lock

import structlog

Work = Callable[[], None]

_log = structlog.get_logger(__name__)


class Mailbox:
    """Waking a loop costs a system call: many pieces of work share one."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._work: deque[Work] = deque()
        self._lock = Lock()
        self._awake = False

    def post(self, work: Work) -> None:
        """RuntimeError once the loop is closed."""
        with self._lock:
            self._work.append(work)
            if self._awake:
                return
            self._loop.call_soon_threadsafe(self.drain)
            self._awake = True

    def drain(self) -> None:
        with self._lock:
            batch, self._work = self._work, deque()
            self._awake = False
        for work in batch:
            try:
                work()
            except Exception:  # the rest of the batch is other people's
                _log.exception("mailbox_work_failed")
