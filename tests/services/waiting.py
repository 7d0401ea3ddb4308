"""Waiting for something to become true, with a deadline instead of a guess."""

import time
from collections.abc import Callable

from tests.services.errors import ServiceError


def wait_until(condition: Callable[[], object], what: str, seconds: float = 30) -> None:
    """Ask `condition` until it is true; after `seconds` fail, saying that `what` did not happen."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise ServiceError(f"{what}: did not happen within {seconds:g} s")
        time.sleep(0.05)
