"""Many callers, one statement: who comes first takes along what waits behind the last batch."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from gemhooks.errors import LedgerUnavailable

Item = TypeVar("Item")
Answer = TypeVar("Answer")

MOST_AT_ONCE = 256


@dataclass(slots=True)
class _Task(Generic[Item, Answer]):
    item: Item
    answers: list[Answer] = field(default_factory=list)  # one, once it is there
    error: BaseException | None = None

    @property
    def has_ended(self) -> bool:
        return bool(self.answers) or self.error is not None


class Batching(Generic[Item, Answer]):
    """Calls *work*, which answers a list with one as long, on some caller's thread.

    A thread of its own would cost two hand-overs per call, even when nothing else waits.
    """

    def __init__(self, work: Callable[[list[Item]], list[Answer]]) -> None:
        self._work = work
        self.waiting: list[_Task[Item, Answer]] = []
        self._lock = threading.Lock()
        self._turn = threading.Lock()  # one batch at a time, so that a next one gathers

    def ask(self, item: Item) -> Answer:
        """The answer to *item*, or the error that working on it raised."""
        task: _Task[Item, Answer] = _Task(item)
        with self._lock:
            self.waiting.append(task)
        while not task.has_ended:
            with self._turn:
                if not task.has_ended:
                    self._run(self._take())
        if task.error is not None:
            raise task.error
        return task.answers[0]

    def _take(self) -> list[_Task[Item, Answer]]:
        with self._lock:
            taken, self.waiting = self.waiting[:MOST_AT_ONCE], self.waiting[MOST_AT_ONCE:]
        return taken

    def _run(self, tasks: list[_Task[Item, Answer]]) -> None:
        try:
            answers = self._work([task.item for task in tasks])
        except BaseException as error:
            self._after_failure(tasks, error)
        else:
            for task, answer in zip(tasks, answers, strict=True):
                task.answers.append(answer)

    def _after_failure(self, tasks: list[_Task[Item, Answer]], error: BaseException) -> None:
        """Try each apart, so that one that fails takes no neighbours with it."""
        if len(tasks) > 1 and not isinstance(error, LedgerUnavailable):
            for task in tasks:
                self._run([task])
            return
        for task in tasks:
            task.error = error
