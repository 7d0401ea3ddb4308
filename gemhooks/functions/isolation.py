"""Functions in processes of their own: what one does to its process, it does to itself.

A process that hangs is killed at the deadline; one that dies or eats its memory fails its own call.
"""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import TimeoutError as FutureTimeout
from typing import TYPE_CHECKING, Any

from gemhooks.functions.deadline import DeadlinePassed
from gemhooks.functions.results import Answer, Outcome

if TYPE_CHECKING:  # a tenth of a second, and most functions run in threads
    from pebble import ProcessPool

PROCESSES = 4  # at once; each is kept for the next call
START = 60.0  # seconds that a new process may take until it can run anything
ORPHANED = 5.0  # seconds beyond the deadline until a process ends by itself: its parent is gone
try:
    import resource
except ImportError:  # Windows knows no such limit
    resource = None  # type: ignore[assignment]


class Isolation:
    """The processes, started when first needed. Safe to share between threads."""

    def __init__(self, *, memory: int, processes: int = PROCESSES) -> None:
        self._memory = memory
        self._processes = processes
        self._room = threading.BoundedSemaphore(processes)
        self._lock = threading.Lock()
        self._pool: ProcessPool | None = None

    @contextlib.contextmanager
    def room(self) -> Iterator[None]:
        """Wait until a process is free, and keep it so: in a queue, the deadline would not run."""
        with self._room:
            yield

    def run(self, work: Callable[..., Answer], *arguments: Any, seconds: float) -> Answer:
        """What *work* answers in another process; DeadlinePassed once that was killed."""
        from pebble import ProcessExpired  # noqa: PLC0415 - see above

        future = self._started().schedule(_alone, args=(work, seconds, arguments), timeout=seconds)
        try:
            answer: Answer = future.result(seconds + START)
        except (TimeoutError, FutureTimeout):
            future.cancel()  # type: ignore[no-untyped-call]  # pebble's own types have a hole
            raise DeadlinePassed from None
        except ProcessExpired as error:
            text = f"The process of the function died (exit code {error.exitcode})"
            return Answer(text, Outcome.FAILED)
        return answer

    def close(self) -> None:
        """End the processes, whatever they do."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.stop()  # type: ignore[no-untyped-call]  # as above
            pool.join()

    def _started(self) -> "ProcessPool":
        from multiprocessing import get_context  # noqa: PLC0415 - see above

        from pebble import ProcessPool  # noqa: PLC0415

        with self._lock:
            if self._pool is None:
                # Not fork: this process has threads, and they may hold locks.
                self._pool = ProcessPool(
                    self._processes,
                    initializer=_limit,
                    initargs=(self._memory,),
                    context=get_context("spawn"),
                )
            return self._pool


def _limit(memory: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    if resource is not None:
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))


def _alone(work: Callable[..., Answer], seconds: float, arguments: tuple[Any, ...]) -> Answer:
    """In the process: *work*, with a clock that ends the process should nobody else be there to."""
    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, seconds + ORPHANED)
    try:
        return work(*arguments)
    finally:
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_REAL, 0)
