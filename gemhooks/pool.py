"""Threads for handlers: as few as keep up, all of them where handlers wait."""

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

import structlog

Job = TypeVar("Job")

TICK = 0.001  # seconds between looks whether jobs wait for nothing
SLOW = 2  # jobs begun within a tick; where fewer are, one more thread joins
BRISK = 4  # where so many are, one leaves

log = structlog.get_logger()


class Pool(Generic[Job]):
    """Begins jobs in the order in which they came, at most *size* at once.

    Python computes in one thread at a time, and going from one to another costs more than a short
    handler. So one thread takes job after job, and others join it while those that wait don't move.
    """

    def __init__(self, work: Callable[[Job], None], size: int) -> None:
        self._work = work
        self._size = size
        self._jobs: deque[Job] = deque()
        self._lock = threading.Lock()
        self._all_ended = threading.Condition(self._lock)
        self._wanted = threading.Semaphore(0)  # released for each idle thread that shall join
        self._jobs_wait = threading.Event()  # behind others, so that the pacer looks at them
        self._active = self._started = self._begun = 0
        self._is_one_too_many = self._stopped = False
        threading.Thread(target=self._pace, name="handler-pacer", daemon=True).start()

    def put(self, job: Job) -> bool:
        """False, and nothing done, once it was stopped."""
        with self._lock:
            if self._stopped:
                return False
            self._jobs.append(job)
            if self._active:
                self._tell_pacer()
            else:
                self._join()
        return True

    def stop(self) -> list[Job]:
        """Begin no more; the jobs that were never begun."""
        with self._lock:
            self._stopped = True
            left, self._jobs = list(self._jobs), deque()
            self._wanted.release(self._size)  # so that idle threads end
            self._jobs_wait.set()
        return left

    def wait(self, timeout: float) -> bool:
        """Whether all that began has ended within *timeout* seconds."""
        with self._all_ended:
            return self._all_ended.wait_for(lambda: not self._active, timeout)

    # -- the threads

    def _join(self) -> None:
        self._active += 1
        if self._active > self._started:
            self._started += 1
            name = f"handler-{self._started}"
            threading.Thread(target=self._serve, name=name, daemon=True).start()
        else:
            self._wanted.release()

    def _serve(self) -> None:
        while not self._stopped:
            while (job := self._next()) is not None:
                self._run(job)
            self._wanted.acquire()

    def _next(self) -> Job | None:
        """None where this thread is not wanted any more."""
        with self._lock:
            if self._jobs and not (self._is_one_too_many and self._active > 1):
                return self._begin()
            self._is_one_too_many = False
            self._active -= 1
            if not self._active:
                self._all_ended.notify_all()
        return None

    def _begin(self) -> Job:
        self._begun += 1
        job = self._jobs.popleft()
        if self._jobs:
            self._tell_pacer()
        return job

    def _tell_pacer(self) -> None:
        if not self._jobs_wait.is_set():  # to set it again takes ten times as long
            self._jobs_wait.set()

    def _run(self, job: Job) -> None:
        try:
            self._work(job)
        except BaseException:  # the thread must serve the next one
            log.exception("job_failed")

    # -- how many

    def _pace(self) -> None:
        while not self._stopped:
            self._jobs_wait.wait()
            begun = self._begun
            time.sleep(TICK)
            with self._lock:
                self._adjust(self._begun - begun)

    def _adjust(self, begun: int) -> None:
        """At each tick while jobs wait; *begun* is how many were begun since the last one."""
        self._is_one_too_many = begun >= BRISK and self._active > 1
        if self._jobs and begun < SLOW and self._active < self._size:
            self._join()
        elif not self._jobs or self._active == self._size:
            self._jobs_wait.clear()  # until the next one is begun, or waits
