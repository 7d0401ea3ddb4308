"""One thread that writes: an fsync is slow, so what waits together is committed together."""

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import OperationalError

from gemhooks.errors import LedgerUnavailable

T = TypeVar("T")

MOST_AT_ONCE = 256
LONGEST_WAIT = 30.0  # seconds; longer than one busy timeout, shorter than a person's patience

Transaction = Callable[[], AbstractContextManager[sa.Connection]]


@dataclass(frozen=True, slots=True)
class _Task:
    work: Callable[[sa.Connection], Any]
    future: Future[Any]

    def end(self, answer: Any) -> None:
        if isinstance(answer, BaseException):
            self.future.set_exception(answer)
        else:
            self.future.set_result(answer)


class Writer:
    """Runs work in transactions of its own thread; callers wait until theirs is committed."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._lock = threading.Lock()  # so that nothing is put behind the last None
        self._closed = False
        self._thread = threading.Thread(target=self._loop, name="ledger-writer", daemon=True)
        self._thread.start()

    def run(self, work: Callable[[sa.Connection], T]) -> T:
        task = _Task(work, Future())
        self._put(task)
        try:
            answer: T = task.future.result(LONGEST_WAIT)
        except TimeoutError:
            task.future.cancel()
            raise LedgerUnavailable("The database is too slow.") from None
        return answer

    def close(self) -> None:
        """Write what waits, then end."""
        with self._lock:
            self._closed = True
            self._tasks.put(None)
        self._thread.join(LONGEST_WAIT)

    def _put(self, task: _Task) -> None:
        with self._lock:
            if self._closed:
                raise LedgerUnavailable("The ledger is closed.")
            self._tasks.put(task)

    def _loop(self) -> None:
        while (first := self._tasks.get()) is not None:
            tasks, ended = self._gather(first)
            self._commit([task for task in tasks if task.future.set_running_or_notify_cancel()])
            if ended:
                return

    def _gather(self, first: _Task) -> tuple[list[_Task], bool]:
        """Return what waits behind *first*, and whether the end was among it."""
        tasks = [first]
        while len(tasks) < MOST_AT_ONCE:
            try:
                task = self._tasks.get_nowait()
            except queue.Empty:
                break
            if task is None:
                return tasks, True
            tasks.append(task)
        return tasks, False

    def _commit(self, tasks: list[_Task]) -> None:
        if not tasks:
            return
        try:
            answers = self._together(tasks)
        except Exception as error:
            self._after_failure(tasks, error)
        else:
            for task, answer in zip(tasks, answers, strict=True):
                task.end(answer)

    def _together(self, tasks: list[_Task]) -> list[Any]:
        with self._transaction() as connection:
            return [task.work(connection) for task in tasks]

    def _after_failure(self, tasks: list[_Task], error: Exception) -> None:
        """Try each apart, so that one that fails takes no neighbours with it."""
        if len(tasks) > 1 and not _is_away(error):
            for task in tasks:
                self._commit([task])
            return
        for task in tasks:
            task.end(error)


def _is_away(error: Exception) -> bool:
    """Locked or full, say: each apart would only wait once more."""
    return isinstance(error.__cause__, OperationalError)
