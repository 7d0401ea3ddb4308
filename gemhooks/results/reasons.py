"""Why a place could not be written to or read, in words for a person."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from gemhooks.errors import Retry


def reason(error: OSError) -> str:
    if error.errno == errno.ENOSPC:
        return "the disk is full"
    if isinstance(error, PermissionError):
        return "permission denied"
    return error.strerror or type(error).__name__


@contextmanager
def full_disk_is_a_retry() -> Iterator[None]:
    """What the disk refuses now it may take later."""
    try:
        yield
    except OSError as error:
        raise Retry(f"the result cannot be stored: {reason(error)}") from error
