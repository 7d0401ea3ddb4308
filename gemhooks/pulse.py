"""Whether the loop still turns: health is asked on a thread of its own, which outlives it."""

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import NoReturn

BEAT = 0.5  # seconds
SHORT = 5.0  # seconds of silence: who comes now waits in vain, let others have the requests
LONG = 60.0  # of it: only a new process helps


class Pulse:
    """Beats while the loop turns."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._beat_at = clock()

    def beat(self) -> None:
        self._beat_at = self._clock()

    async def keep(self) -> NoReturn:
        while True:
            self.beat()
            await asyncio.sleep(BEAT)

    def is_quick(self) -> bool:
        """What is asked now is answered soon."""
        return self._clock() - self._beat_at < SHORT

    def is_felt(self) -> bool:
        """False where the loop hangs for good."""
        return self._clock() - self._beat_at < LONG
