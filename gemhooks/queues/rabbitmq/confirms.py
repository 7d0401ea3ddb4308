"""The future of what is published on the loop's own thread."""

from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError

import structlog

Told = Callable[[Future[None]], object]

_log = structlog.get_logger(__name__)


class Confirm(Future[None]):
    """Settled and asked on one thread, so it needs no lock, and is made in a ninth of the time.

    Nobody can wait for it: on the loop's thread that would be for ever, so asking too early is a
    TimeoutError at once. ``concurrent.futures.wait`` knows no such futures.
    """

    def __init__(self) -> None:  # not the base class's, which makes the lock
        self._told: list[Told] = []
        self._is_settled = False
        self._error: BaseException | None = None

    def __repr__(self) -> str:
        return f"<Confirm {'settled' if self._is_settled else 'pending'}: {self._error!r}>"

    def cancel(self) -> bool:
        """It is out of our hands."""
        return False

    def cancelled(self) -> bool:
        return False

    def running(self) -> bool:
        return not self._is_settled

    def done(self) -> bool:
        return self._is_settled

    def set_running_or_notify_cancel(self) -> bool:
        return True

    def add_done_callback(self, fn: Told) -> None:
        if self._is_settled:
            self._tell(fn)
        else:
            self._told.append(fn)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        if not self._is_settled:
            raise TimeoutError
        return self._error

    def result(self, timeout: float | None = None) -> None:
        if error := self.exception(timeout):
            raise error

    def set_result(self, result: None) -> None:
        self._settle(result)

    def set_exception(self, exception: BaseException | None) -> None:
        self._settle(exception)

    def _settle(self, error: BaseException | None) -> None:
        if self._is_settled:
            raise InvalidStateError(repr(self))
        self._error, self._is_settled = error, True
        told, self._told = self._told, []
        for each in told:
            self._tell(each)

    def _tell(self, fn: Told) -> None:
        try:
            fn(self)
        except Exception:
            _log.exception("confirm_callback_failed")
