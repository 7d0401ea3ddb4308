"""Where the resources of one kind stand: a bounded dictionary that many threads may use."""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from gemhooks.simulator.refusals import not_found

T = TypeVar("T")


class Shelf(Generic[T]):
    """Every value is frozen: a change puts a new one in its place.

    Values weigh at least *lightest* each and *capacity* together; the oldest make room. *dropped*
    is told of each value that leaves.
    """

    def __init__(
        self,
        noun: str,
        capacity: int,
        *,
        lightest: int = 1,
        dropped: Callable[[T], None] = lambda _: None,
    ) -> None:
        self._noun = noun
        self._capacity = capacity
        self._lightest = lightest
        self._dropped = dropped
        self._lock = threading.Condition()
        self._values: dict[str, T] = {}
        self._weights: dict[str, int] = {}
        self._weight = 0

    def put(self, key: str, value: T, weight: int = 0) -> T:
        weight = max(weight, self._lightest)
        with self._lock:
            self._values[key] = value
            self._weight += weight - self._weights.get(key, 0)
            self._weights[key] = weight
        while self._weight > self._capacity and (oldest := next(iter(self._values))) != key:
            self.discard(oldest)
        return value

    def find(self, key: str) -> T | None:
        return self._values.get(key)

    def get(self, key: str) -> T:
        """Raises a Refusal with 404 when there is none."""
        if (value := self._values.get(key)) is None:
            raise not_found(f"{self._noun} {key}")
        return value

    def change(self, key: str, change: Callable[[T], T]) -> T:
        """Put what *change* makes of the value in its place; nobody sees the moment between."""
        with self._lock:
            changed = self._values[key] = change(self.get(key))
            self._lock.notify_all()
            return changed

    def wait(self, key: str, enough: Callable[[T], bool], timeout: float) -> None:
        """Wait until the value is *enough* or gone, for *timeout* seconds at most."""
        with self._lock:
            self._lock.wait_for(
                lambda: (value := self._values.get(key)) is None or enough(value), timeout
            )

    def remove(self, key: str) -> None:
        self.get(key)
        self.discard(key)

    def discard(self, key: str) -> None:
        with self._lock:
            value = self._values.pop(key, None)
            self._weight -= self._weights.pop(key, 0)
            self._lock.notify_all()
        if value is not None:
            self._dropped(value)

    def __len__(self) -> int:
        return len(self._values)

    def values(self) -> tuple[T, ...]:
        with self._lock:
            return tuple(self._values.values())
