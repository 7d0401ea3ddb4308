"""A large result while it arrives: a local file that survives a crash and is one process's."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Self

from gemhooks.errors import Retry
from gemhooks.results.flushing import Flusher
from gemhooks.results.reasons import full_disk_is_a_retry

ABANDONED = 72 * 3600.0  # seconds; by then Gemini has deleted what could complete it
BUSY_DELAY = 30.0  # seconds


class Partial:
    """The bytes that have arrived so far. What is in it is visible to nobody else."""

    def __init__(self, path: Path, file: FileIO) -> None:
        self.path = path
        self._file = file
        self._flusher = Flusher(path)

    @classmethod
    def open(cls, path: Path) -> Self:
        """Take up what a crash has left, or begin. Retry where another process is at it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        sweep(path.parent)
        file = path.open("a+b", buffering=0)
        if _is_ours(file, path):
            return cls(path, file)
        file.close()
        raise Retry("another process fetches the same result", at_least=BUSY_DELAY)

    @property
    def size(self) -> int:
        return os.fstat(self._file.fileno()).st_size

    def tail(self, length: int) -> bytes:
        """The last *length* bytes, or all there are."""
        return os.pread(self._file.fileno(), length, max(0, self.size - length))

    def write(self, chunk: bytes | memoryview) -> None:
        with full_disk_is_a_retry():
            rest = memoryview(chunk)
            while rest:
                rest = rest[self._file.write(rest) :]
        self._flusher.wrote(len(chunk))

    def truncate(self, size: int = 0) -> None:
        self._file.truncate(size)

    def sync(self) -> None:
        """Return once all of it is on the disk."""
        with full_disk_is_a_retry():
            os.fsync(self._file.fileno())

    def discard(self) -> None:
        self.path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Let go of it; what has arrived stays for the next attempt."""
        self._flusher.close()
        self._file.close()


def _is_ours(file: FileIO, path: Path) -> bool:
    """Whether we have the lock, and of the file that is still there: it may be put in place."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except (BlockingIOError, FileNotFoundError):
        return False


def sweep(folder: Path) -> None:
    """Remove what nobody has written to for days."""
    for path in folder.iterdir():
        with suppress(OSError), _unowned(path):
            if time.time() - path.stat().st_mtime > ABANDONED:
                path.unlink()


@contextmanager
def _unowned(path: Path) -> Iterator[None]:
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
