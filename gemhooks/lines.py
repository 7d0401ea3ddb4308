"""Log lines on their way out. No work of ours fails since nobody can read them.

Those of a busy process are gathered for a moment and written together: a write lets go of the
interpreter; with a thread waiting for it, one for each line took a third of what a message costs
(``make bench-worker``).
"""

import asyncio
import atexit
import os
import select
import stat
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import BinaryIO, Generic, Protocol, TypeVar

GATHER = 0.01  # seconds that a line may wait; a kill -9 takes as much of the log with it
MOST_WAITING = 1000  # lines; who logs more while the reader is slow waits for it
MOST_KEPT = 1 << 20  # bytes for a reader that has stalled
PATIENCE = 1.0  # seconds for a writer that a signal, or the end of the process, came upon

DROPPED = b'{"event":"log_lines_dropped","level":"warning","lines":%d}\n'

Written = TypeVar("Written", str, bytes)
Written_contra = TypeVar("Written_contra", str, bytes, contravariant=True)
Call = Callable[[], None]
Alarm = Callable[[Call], Call]  # of what is to be done soon, makes what is called to have it done


class File(Protocol[Written_contra]):
    def write(self, data: Written_contra, /) -> object: ...
    def flush(self) -> object: ...


class Lines(Generic[Written]):
    """A logger for structlog: each line is written at once."""

    def __init__(self, file: File[Written], end: Written) -> None:
        self._file: File[Written] = file
        self._end: Written = end
        self._writing = threading.Lock()

    def msg(self, line: Written) -> None:
        with self._writing:
            write(self._file, line + self._end)

    debug = info = warning = error = critical = msg


def write(file: File[Written], text: Written) -> None:
    """Where nobody can read it, it is gone: its reader has left, it is closed, the disk full."""
    with suppress(OSError, ValueError):
        file.write(text)
        file.flush()


class Impatient:
    """A pipe or a socket for who must not wait for its reader: a loop that serves others.

    What finds no room is kept, and written before what comes next; what would be too much to keep
    is dropped, and a line says so as soon as there is room.
    """

    def __init__(self, fileno: int) -> None:
        self._fileno = fileno
        self._kept = bytearray()
        self._dropped = 0  # lines
        self._room = select.poll()
        self._room.register(fileno, select.POLLOUT)
        atexit.register(self._end)

    def write(self, data: bytes) -> None:
        if self._kept and len(self._kept) + len(data) > MOST_KEPT:
            self._dropped += data.count(b"\n")
            return
        if self._dropped:
            self._kept += DROPPED % self._dropped
            self._dropped = 0
        self._kept += data

    def flush(self) -> None:
        """Write as much as there is room for."""
        self._write(until=0)

    def _write(self, *, until: float) -> None:
        while self._kept and self._room.poll(max(0, until - time.monotonic()) * 1000):
            try:  # for so much there is room where there is any
                written = os.write(self._fileno, self._kept[: select.PIPE_BUF])
            except OSError:
                self._kept.clear()
                raise
            del self._kept[:written]

    def _end(self) -> None:
        with suppress(OSError):
            self._write(until=time.monotonic() + PATIENCE)


def impatient(file: BinaryIO) -> File[bytes]:
    """*file*, so that writing to it never waits for a reader; nobody reads along a plain file."""
    try:
        mode = os.fstat(file.fileno()).st_mode
    except OSError:  # it is in memory
        return file
    is_read = stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
    return Impatient(file.fileno()) if is_read and hasattr(select, "poll") else file


class GatheredLines:
    """A logger for structlog: info may wait, all else is written at once, with what waits."""

    def __init__(self, file: File[bytes], alarm: Alarm) -> None:
        """*alarm* is :func:`by_thread` or :func:`on_loop`."""
        self._file = file
        self._waiting: deque[bytes] = deque()
        self._most_waiting = MOST_WAITING
        self._writing = threading.Lock()
        self._is_set = False
        self._set = alarm(self._ring)
        atexit.register(self.flush)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._be_alone)

    def info(self, line: bytes) -> None:
        self._waiting.append(line)
        if len(self._waiting) > self._most_waiting:
            self.flush()
        elif not self._is_set:
            self._is_set = True
            self._set()

    def warning(self, line: bytes) -> None:
        self._waiting.append(line)
        self.flush()

    debug = msg = error = critical = warning

    def flush(self) -> None:
        """Write what waits."""
        if not self._writing.acquire(timeout=PATIENCE):
            return
        try:
            lines = [self._waiting.popleft() for _ in range(len(self._waiting))]
            write(self._file, b"".join(line + b"\n" for line in lines))
        finally:
            self._writing.release()

    def _ring(self) -> None:
        self._is_set = False  # first: what comes from now on sets it again
        self.flush()

    def _be_alone(self) -> None:
        """In a fork, which has nobody who would ring: its parent writes what waits."""
        self._waiting.clear()
        self._most_waiting = 0
        self._writing = threading.Lock()


def by_thread(ring: Call) -> Call:
    """For a process of many threads."""
    is_set = threading.Event()

    def serve() -> None:
        while is_set.wait():
            time.sleep(GATHER)
            is_set.clear()
            ring()

    threading.Thread(target=serve, name="log-lines", daemon=True).start()
    return is_set.set


def on_loop(ring: Call) -> Call:
    """For one that does all on the loop which runs now: a thread more would be in its way."""
    loop, own = asyncio.get_running_loop(), threading.get_ident()

    def ring_soon() -> None:
        if threading.get_ident() == own and not loop.is_closed():
            loop.call_later(GATHER, ring)
        else:
            ring()

    return ring_soon
