"""Runs jobs when they are due, on a few threads."""

import heapq
import itertools
import logging
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

log = logging.getLogger(__name__)

Job = Callable[[], None]


@dataclass(frozen=True, order=True, slots=True)
class Due:
    at: float
    order: int
    job: Job = field(compare=False)


class Schedule:
    """What is due first runs first; what is not due when `stop` is called never runs.

    One thread keeps the time and hands what is due to the others: none of them wakes in vain.
    """

    def __init__(self, threads: int = 32) -> None:
        self._changed = threading.Condition()
        self._heap: list[Due] = []
        self._orders = itertools.count()
        self._stopped = False
        self._due: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._timer = threading.Thread(target=self._keep_time, daemon=True)
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(threads)]

    def start(self) -> None:
        for thread in (self._timer, *self._threads):
            thread.start()

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify()
        for _ in self._threads:
            self._due.put(None)
        for thread in (self._timer, *self._threads):
            thread.join()

    def after(self, delay: float, job: Job) -> None:
        if delay <= 0:
            self._due.put(job)
            return
        due = Due(time.monotonic() + delay, next(self._orders), job)
        with self._changed:
            heapq.heappush(self._heap, due)
            if self._heap[0] is due:  # only then the timer waits for the wrong one
                self._changed.notify()

    def _keep_time(self) -> None:
        with self._changed:
            while not self._stopped:
                wait = self._heap[0].at - time.monotonic() if self._heap else None
                if wait is not None and wait <= 0:
                    self._due.put(heapq.heappop(self._heap).job)
                else:
                    self._changed.wait(wait)

    def _work(self) -> None:
        while (job := self._due.get()) is not None and not self._stopped:
            try:
                job()
            except Exception:  # a broken job must not take its thread with it
                log.exception("a job of the simulator failed")
