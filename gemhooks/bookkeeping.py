"""Claims before handlers, marks after them: many at a time, so that no handler's thread waits."""

import time
from collections.abc import Callable

import structlog

from gemhooks.errors import LedgerUnavailable
from gemhooks.gathering import Gathering
from gemhooks.messages import Claim
from gemhooks.runner import MARK_PAUSE, Outcome, Runner, Work, away

log = structlog.get_logger()


class Bookkeeper:
    """Stands between a runner and its ledger.

    Only what nobody ever began is claimed ahead: a start that counts must not be counted of a
    message that merely waits beside one that kills its process.
    """

    def __init__(self, runner: Runner, begin: Callable[[Runner, Work], None]) -> None:
        """*begin* is given what may run, claimed or not."""
        runner.mark = self.mark
        self._runner = runner
        self._queue = runner.subscription.queue
        self._begin = begin
        self._claims = Gathering(self._claim, name="ledger-claims")
        self._marks = Gathering(self._mark, name="ledger-marks")

    def take(self, work: Work) -> None:
        """Claim it, then let it begin; or end it, where it was done before."""
        self._claims.put(work)

    def mark(self, work: Work) -> None:
        """Write down that it is done, then end it."""
        self._marks.put(work)

    def is_alive(self) -> bool:
        """False where nothing is claimed or marked any more."""
        return self._claims.is_alive() and self._marks.is_alive()

    def close(self, timeout: float) -> bool:
        """Write what waits; False where that takes too long."""
        deadline = time.monotonic() + timeout
        claimed = self._claims.close(timeout)
        return self._marks.close(max(0.0, deadline - time.monotonic())) and claimed

    def _claim(self, new: list[Work]) -> None:
        for work in new:
            work.key = self._runner.key_of(work.delivery.message)
        try:
            answers = self._runner.ledger.claim_new(self._queue, *(work.key for work in new))
        except LedgerUnavailable as error:
            for work in new:
                self._end(work, away(error))
            return
        except Exception:
            log.exception("claims_failed")
            answers = [None] * len(new)  # each asks by itself
        for work, work.claimed in zip(new, answers, strict=True):
            if work.claimed is None or work.claimed.claim is Claim.GRANTED:
                self._begin(self._runner, work)
            else:
                self._end(work, self._runner.unclaimed(work.claimed, work.delivery.message))

    def _mark(self, done: list[Work]) -> None:
        try:
            self._runner.ledger.done(self._queue, *(work.key for work in done))
        except LedgerUnavailable as error:
            self._mark_later(done, error)
            return
        except Exception:
            log.exception("marks_failed")
            for work in done:
                self._runner.mark_and_end(work)
            return
        for work in done:
            self._end(work, work.outcome)

    def _mark_later(self, done: list[Work], error: LedgerUnavailable) -> None:
        for work in done:
            if self._runner.gives_up(work):
                self._end(work, away(error))
            else:
                self._marks.put(work)
        time.sleep(MARK_PAUSE)

    def _end(self, work: Work, outcome: Outcome) -> None:
        try:
            self._runner.end(work, outcome)
        except Exception:  # its neighbours are to be ended too
            log.exception("message_lost_its_runner")
