"""Which processes are alive, known at once: each holds a lock on a file of its own."""

import fcntl
import os
import uuid
from contextlib import suppress
from io import FileIO
from pathlib import Path

from gemhooks import forks


class Owner:
    """This process as an owner of rows, alive for others until release() or its death."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(mode=0o700, exist_ok=True)
        self.name, lock = _register(folder)
        self._lock = FileIO(lock, "r+")
        forks.keep(self._lock)

    def is_dead(self, other: str) -> bool:
        """Nobody holds the lock of *other*; a frozen process still does."""
        if other == self.name:
            return False
        lock = _try_lock(self._folder / other)
        if lock is None:
            return not (self._folder / other).exists()
        os.close(lock)
        return True

    def sweep(self) -> None:
        """Remove the files of the dead."""
        for path in self._folder.iterdir():
            lock = _try_lock(path) if path.name != self.name else None
            if lock is not None:
                path.unlink(missing_ok=True)
                os.close(lock)

    def release(self) -> None:
        with suppress(OSError):
            (self._folder / self.name).unlink(missing_ok=True)
        self._lock.close()


def count_alive(folder: Path) -> int:
    """How many processes consume from the file that *folder* belongs to."""
    alive = 0
    for path in folder.iterdir() if folder.is_dir() else ():
        lock = _try_lock(path)
        if lock is None:
            alive += path.exists()
        else:
            os.close(lock)
    return alive


def _register(folder: Path) -> tuple[str, int]:
    while True:
        name = uuid.uuid4().hex
        # O_CLOEXEC: a program we start must not keep us alive in the eyes of others.
        lock = os.open(folder / name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (folder / name).exists():
            return name, lock
        os.close(lock)  # somebody swept the file before we had locked it


def _try_lock(path: Path) -> int | None:
    try:
        lock = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return None
    return lock
