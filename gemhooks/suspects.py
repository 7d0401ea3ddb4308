"""Redelivered messages where no ledger counts their starts: one at a time, and the first pays."""

import threading
from collections import deque
from collections.abc import Callable

from gemhooks.messages import Claim, Claimed
from gemhooks.runner import Work

SETTLED = 0.1  # seconds after which the end of one is known to its queue


class Suspects:
    """What came back together, in the order of its queue.

    Any of them may have killed its process. That counts as an attempt of the first alone; the
    others run one by one, each acknowledged before the next begins. So if one of them kills its
    process again, it is the first of what comes back next.
    """

    def __init__(self, begin: Callable[[Work], None]) -> None:
        self._begin = begin
        self._waiting: deque[Work] = deque()
        self._lock = threading.Lock()
        self._is_busy = False

    def put(self, work: Work) -> None:
        with self._lock:
            work.then = self._go_on
            work.claimed = Claimed(Claim.GRANTED if self._is_busy else Claim.UNKNOWN)
            self._waiting.append(work)
            work_is_next, self._is_busy = not self._is_busy, True
        if work_is_next:
            self._next()

    def stop(self) -> list[Work]:
        """Begin no more; those that were never begun."""
        with self._lock:
            left, self._waiting = list(self._waiting), deque()
        return left

    def _go_on(self) -> None:
        timer = threading.Timer(SETTLED, self._next)
        timer.daemon = True
        timer.start()

    def _next(self) -> None:
        with self._lock:
            work = self._waiting.popleft() if self._waiting else None
            self._is_busy = work is not None
        if work is not None:
            self._begin(work)
