"""Runs jobs when they are due, on a few threads."""

import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

log = logging.getLogger(__name__)


@dataclass(frozen=True, order=True)
class Due:
    at: float
    order: int
    job: Callable[[], None] = field(compare=False)


class Schedule:
    """What is due first runs first; what is not due when `stop` is called never runs."""

    def __init__(self, threads: int = 8) -> None:
        self._changed = threading.Condition()
        self._heap: list[Due] = []
        self._orders = itertools.count()
        self._stopped = False
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(threads)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def after(self, delay: float, job: Callable[[], None]) -> None:
        with self._changed:
            heapq.heappush(self._heap, Due(time.monotonic() + delay, next(self._orders), job))
            # All of them: the one thread that notify() picks may be waiting for another job.
            self._changed.notify_all()

    def _work(self) -> None:
        while job := self._next():
            try:
                job()
            except Exception:  # a broken job must not take its thread with it
                log.exception("a job of the simulator failed")

    def _next(self) -> Callable[[], None] | None:
        with self._changed:
            while not self._stopped:
                wait = self._heap[0].at - time.monotonic() if self._heap else None
                if wait is not None and wait <= 0:
                    return heapq.heappop(self._heap).job
                self._changed.wait(wait)
        return None
