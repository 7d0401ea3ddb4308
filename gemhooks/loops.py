"""One event loop for all coroutines of a process: a client made in one serves in the next."""

import asyncio
import sys
import threading
from collections.abc import Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

import structlog

T = TypeVar("T")
BLOCKED = 1.0  # seconds without a turn after which a loop is held to be blocked
THREADS = 256  # for asyncio.to_thread and looking up names; one that hangs must not be the last

log = structlog.get_logger()


class SharedLoop:
    """Runs coroutines, in a loop that is begun when it is needed. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._turning: _Turning | None = None

    def begin(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Its end, to be waited for. It has the caller's context: log lines keep their ids."""
        with self._lock:
            if self._turning is None:
                self._turning = _Turning()
            return asyncio.run_coroutine_threadsafe(coroutine, self._turning.loop)

    def leave_if_blocked(self) -> None:
        """What begins from now on has a loop that turns; what runs goes on when its own does."""
        with self._lock:  # so that nothing begins in it meanwhile
            turning = self._turning
            if turning is None or turning.turns_within(BLOCKED):
                return
            self._turning = None
        log.warning("event_loop_blocked", blocked_at=turning.place)
        turning.end_when_idle()


class _Turning:
    """A loop in a thread of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.loop.set_default_executor(ThreadPoolExecutor(THREADS, "gemhooks-async"))
        self._is_done = False
        self._thread = threading.Thread(target=self._turn, name="gemhooks-async", daemon=True)
        self._thread.start()

    @property
    def place(self) -> str:
        """The file and line that it is at."""
        frame = sys._current_frames().get(self._thread.ident or 0)  # noqa: SLF001 - as documented
        return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame else ""

    def turns_within(self, seconds: float) -> bool:
        turned = threading.Event()
        self.loop.call_soon_threadsafe(turned.set)
        return turned.wait(seconds)

    def end_when_idle(self) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self.loop)

    def _turn(self) -> None:
        while not self._is_done:
            # A coroutine that raises one of these ends itself; its future says so.
            with suppress(SystemExit, KeyboardInterrupt):
                self.loop.run_forever()
        self.loop.close()

    async def _end(self) -> None:
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(others)
        self._is_done = True
        self.loop.stop()


shared = SharedLoop()
