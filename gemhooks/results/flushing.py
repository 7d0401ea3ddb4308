"""Brings a growing file to the disk while more of it arrives: little is left to do at its end."""

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

ENOUGH = 8 << 20  # bytes that are worth a flush


class Flusher:
    """Flushes one file beside its writer, who never waits for it and is told of no error.

    The writer's own sync tells: the kernel reports a failed write once to each descriptor, and
    this one is not the writer's.
    """

    def __init__(self, path: Path, *, sync: Callable[[int], None] = os.fsync) -> None:
        self._descriptor = os.open(path, os.O_RDONLY)
        self._sync = sync
        self._thread = ThreadPoolExecutor(1, "flusher")
        self._under_way: Future[None] | None = None
        self._unflushed = 0

    def wrote(self, size: int) -> None:
        """So many bytes more are in the file."""
        self._unflushed += size
        is_busy = self._under_way is not None and not self._under_way.done()
        if self._unflushed >= ENOUGH and not is_busy:
            self._unflushed = 0
            # Nobody asks for its result: see above.
            self._under_way = self._thread.submit(self._sync, self._descriptor)

    def close(self) -> None:
        """Return once nothing of it is under way."""
        self._thread.shutdown()
        os.close(self._descriptor)
