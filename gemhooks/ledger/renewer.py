"""The one thread of a process that keeps its claims alive and its ledger small."""

import threading
import time
from collections.abc import Callable

import structlog

from gemhooks.errors import LedgerUnavailable

log = structlog.get_logger(__name__)

SWEEP_EVERY = 60.0  # seconds
SWEEP_PAUSE = 0.05  # seconds between two steps, for those who want to write


class Renewer:
    """Calls *renew* every *every* seconds, and *sweep* each minute until it returns False."""

    def __init__(
        self, renew: Callable[[], None], sweep: Callable[[], bool], *, every: float
    ) -> None:
        self._renew = renew
        self._sweep = sweep
        self._every = every
        self._swept_at = time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="ledger-renewer", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join(self._every + 30)

    def _loop(self) -> None:
        while not self._stop.wait(self._every):
            try:
                self._renew()
                self._sweep_if_due()
            except LedgerUnavailable as error:
                log.warning("ledger_unavailable", error=str(error))  # it heals: the next round
            except Exception:
                log.exception("ledger_renewer_failed")  # a dead thread would lose every claim

    def _sweep_if_due(self) -> None:
        if time.monotonic() - self._swept_at < SWEEP_EVERY:
            return
        self._swept_at = time.monotonic()
        while self._sweep() and not self._stop.wait(SWEEP_PAUSE):
            self._renew()  # sweeping must not cost a lease
