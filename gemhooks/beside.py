"""Work in a daemon thread of its own, waited for as long as its caller likes."""

import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def beside(work: Callable[[], T], *, name: str) -> Future[T]:
    """What *work* will return or raise, in the caller's context: its log lines carry our ids.

    Nothing can stop a Python thread: a late one may be left alone, and blocks no process's exit.
    """
    future: Future[T] = Future()
    run = contextvars.copy_context().run
    threading.Thread(target=run, args=(_settle, future, work), name=name, daemon=True).start()
    return future


def _settle(future: Future[T], work: Callable[[], T]) -> None:
    try:
        future.set_result(work())
    except BaseException as error:  # whoever waits gets it
        future.set_exception(error)
