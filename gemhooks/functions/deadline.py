"""Running a function for a bounded time, whatever it does."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import wait
from typing import Any, TypeVar

from gemhooks import loops
from gemhooks.beside import beside

T = TypeVar("T")
CANCELLING = 1.0  # seconds that a cancelled coroutine may take to clean up


class DeadlinePassed(Exception):
    """Time is up."""


def within(seconds: float, work: Callable[[], T], *, grace: float = 0.0) -> T:
    """What *work* returns or raises, or DeadlinePassed.

    It runs in a thread of its own: a late one is left alone and blocks no other call.
    """
    future = beside(work, name="gemhooks-function")
    wait([future], seconds + grace)
    if not future.done():
        raise DeadlinePassed
    return future.result()


def finished(value: Any, seconds: float) -> Any:
    """*value*, or what it ends with where it is awaitable: in the loop that all of them share."""
    if not inspect.isawaitable(value):
        return value
    return loops.shared.begin(_awaited(value, time.monotonic() + seconds)).result()


async def _awaited(value: Awaitable[T], deadline: float) -> T:
    left = deadline - time.monotonic()
    if left <= 0:  # the loop was blocked until now: what was answered as late must not begin
        _drop(value)
        raise DeadlinePassed
    scope = asyncio.timeout(left)
    try:
        async with scope:
            return await value
    except TimeoutError:
        # The function may raise the very same class for reasons of its own.
        if scope.expired():
            raise DeadlinePassed from None
        raise


def _drop(value: Awaitable[Any]) -> None:
    if inspect.iscoroutine(value):
        value.close()
