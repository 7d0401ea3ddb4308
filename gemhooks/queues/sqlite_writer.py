"""The one thread that writes: everything that waits goes into one transaction, one fsync."""

import contextlib
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field
from typing import Any

from gemhooks.errors import PublishFailed
from gemhooks.queues.sqlite_rows import Connection, shorten_log

MOST = 500  # jobs of one transaction
PAUSE = 0.05  # seconds before what failed is tried again

MOST_BYTES = 4 << 20  # of one transaction, unless a single message is larger

Connect = Callable[[], Connection]
HasRoom = Callable[[Connection], bool]


@dataclass(eq=False, slots=True)
class Job:
    """Something to write. A job that *persists* is tried until it succeeds.

    One that *grows* the file shows, when it succeeds, that there is room again.
    """

    work: Callable[[Connection], Any]
    persists: bool = False
    grows: bool = False
    size: int = 0  # bytes, about
    future: Future[Any] = field(default_factory=Future)

    def succeed(self, result: object) -> None:
        with contextlib.suppress(InvalidStateError):  # its deadline was faster
            self.future.set_result(result)

    def fail(self, error: Exception) -> None:
        with contextlib.suppress(InvalidStateError):
            self.future.set_exception(error)


class Writer:
    def __init__(self, connect: Connect, on_commit: Callable[[], None], has_room: HasRoom) -> None:
        self._connect, self._on_commit, self._has_room = connect, on_commit, has_room
        self._db: Connection | None = None
        self._changed = threading.Condition()
        self._jobs: deque[Job] = deque()
        self._failed_jobs: list[Job] = []  # of this round, to be tried in the next
        self._is_full = False  # in this round
        self._closing = False
        self._give_up_at = float("inf")
        self.error: Exception | None = None  # until a message could be written again
        self._thread = threading.Thread(target=self._run, name="gemhooks-writer", daemon=True)
        self._thread.start()

    def submit(self, job: Job) -> Job:
        with self._changed:
            if self._closing:
                job.fail(PublishFailed("disconnected", "the queue is closed"))
            else:
                self._jobs.append(job)
                self._changed.notify()
        return job

    def is_alive(self) -> bool:
        return self._closing or self._thread.is_alive()

    def close(self, timeout: float) -> None:
        """Write what waits, for at most *timeout* seconds, then refuse."""
        with self._changed:
            self._closing = True
            self._give_up_at = time.monotonic() + timeout
            self._changed.notify()
        self._thread.join(timeout + 1)

    def _run(self) -> None:
        while jobs := self._next():
            self._write(jobs)
            self._make_room()
            self._try_again()
            if self._closing and time.monotonic() > self._give_up_at:
                break
        for job in self._jobs:
            job.fail(PublishFailed("disconnected", "the queue is closed"))
        self._disconnect()

    def _next(self) -> list[Job]:
        """Everything that waits; empty when there is no more to come."""
        with self._changed:
            self._changed.wait_for(lambda: self._jobs or self._closing)
            jobs: list[Job] = []
            while self._jobs and len(jobs) < MOST and sum(job.size for job in jobs) < MOST_BYTES:
                jobs.append(self._jobs.popleft())
            return jobs

    def _write(self, jobs: list[Job]) -> None:
        # What expired was reported as failed: it must not come back as a late surprise.
        jobs = [job for job in jobs if job.persists or not job.future.done()]
        if not jobs:
            return
        try:
            results = self._transact(jobs)
        except Exception as error:  # whatever it is, this thread must outlive it
            self._failed(jobs, error)
        else:
            self._written(jobs, results)

    def _written(self, jobs: list[Job], results: list[object]) -> None:
        if any(job.grows for job in jobs):
            self.error = None
        for job, result in zip(jobs, results, strict=True):
            job.succeed(result)
        self._on_commit()

    def _transact(self, jobs: list[Job]) -> list[object]:
        if self._db and not self._db.is_current:  # deleted, or another was put in its place
            self._disconnect()
        db = self._db = self._db or self._connect()
        if any(job.grows for job in jobs) and not self._has_room(db):
            raise NoRoom("the disk is almost full")
        db.execute("BEGIN IMMEDIATE")
        try:
            results = [job.work(db) for job in jobs]
            db.execute("COMMIT")
        except Exception:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise
        if not db.is_current:  # what nobody can open any more is not durable
            raise sqlite3.OperationalError("the file was deleted while it was written")
        return results

    def _failed(self, jobs: list[Job], error: Exception) -> None:
        self.error = error
        self._is_full |= is_full(error)
        if is_busy(error):
            self._failed_jobs += jobs
        elif len(jobs) > 1:  # find the one that cannot be written; the others can
            self._write(jobs[: len(jobs) // 2])
            self._write(jobs[len(jobs) // 2 :])
        else:
            self._failed_alone(jobs[0], error)

    def _failed_alone(self, job: Job, error: Exception) -> None:
        if isinstance(error, PublishFailed):
            job.fail(error)
            return
        if not is_full(error):
            self._disconnect()  # a new connection may find the file healed
        if job.persists and isinstance(error, sqlite3.Error | OSError):
            self._failed_jobs.append(job)
        else:
            job.fail(PublishFailed("too_large" if is_too_big(error) else "failed", str(error)))

    def _make_room(self) -> None:
        """SQLite does not shorten its log by itself, and no more commits may come."""
        if self._is_full and self._db is not None:
            with contextlib.suppress(sqlite3.Error):
                shorten_log(self._db)
        self._is_full = False

    def _try_again(self) -> None:
        """Once a round, however many failed: the others, which may make room, must not wait."""
        failed, self._failed_jobs = self._failed_jobs, []
        if failed:
            with self._changed:
                self._jobs.extendleft(reversed(failed))
            time.sleep(PAUSE)

    def _disconnect(self) -> None:
        db, self._db = self._db, None
        if db is not None:
            with contextlib.suppress(sqlite3.Error):
                db.close()


class NoRoom(Exception):
    """On a full disk not even an acknowledgement could be written, and nothing make room."""


def is_busy(error: Exception) -> bool:
    return _code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def is_full(error: Exception) -> bool:
    return isinstance(error, NoRoom) or _code(error) == sqlite3.SQLITE_FULL


def is_too_big(error: Exception) -> bool:
    return _code(error) == sqlite3.SQLITE_TOOBIG


def _code(error: Exception) -> int:
    return (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF


class Deadlines:
    """Ends futures in time, even while the writer hangs in the disk's fsync."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._changed = threading.Condition()
        self._pending: deque[tuple[float, Job]] = deque()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="gemhooks-deadlines", daemon=True)
        self._thread.start()

    def watch(self, job: Job) -> None:
        with self._changed:
            self._drop_done()
            self._pending.append((time.monotonic() + self._seconds, job))
            if len(self._pending) == 1:
                self._changed.notify()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(1)

    def _run(self) -> None:
        while (job := self._next()) is not None:
            job.fail(PublishFailed("timeout", f"not written within {self._seconds:g} s"))

    def _next(self) -> Job | None:
        """The next job whose time is over; None at the end."""
        with self._changed:
            while not self._closed:
                self._drop_done()
                left = self._pending[0][0] - time.monotonic() if self._pending else None
                if left is not None and left <= 0:
                    return self._pending.popleft()[1]
                self._changed.wait(left)
        return None

    def _drop_done(self) -> None:
        while self._pending and self._pending[0][1].future.done():
            self._pending.popleft()
