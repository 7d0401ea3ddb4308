"""Waiting for something to become true, with a deadline instead of a guess."""

import time
from collections.abc import Callable

from tests.services.errors import ServiceError

PAUSE = 0.05  # seconds between two looks


def comes_true(condition: Callable[[], object], seconds: float) -> bool:
    """Ask `condition` until it is true, and say whether it became so within `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(PAUSE)
    return True


def eventually(condition: Callable[[], object], *, seconds: float = 60, why: str = "") -> None:
    """Return as soon as `condition` is true; fail the test with `why` if it does not become so."""
    if not comes_true(condition, seconds):
        raise AssertionError(f"not within {seconds:g} s: {why or condition}")


def wait_until(condition: Callable[[], object], what: str, seconds: float = 60) -> None:
    """The same for a service: ServiceError says that `what` did not happen."""
    if not comes_true(condition, seconds):
        raise ServiceError(f"{what}: did not happen within {seconds:g} s")
