"""Where a handler forks: the child is no worker, and must not hold what is its parent's.

It may outlive a parent that was killed: as long as it held the parent's lock, port or connection,
the parent would look alive, and what that had in hands would come to nobody.
"""

import os
import sys
from contextlib import suppress
from functools import cache
from typing import NoReturn, Protocol
from weakref import WeakSet

FAILED = 1


class Closing(Protocol):
    def close(self) -> None: ...


def keep(thing: Closing) -> None:
    """Close *thing* in every child that is forked from now on, as long as it is ours."""
    _kept().add(thing)


def leave(process: int, error: BaseException | None = None) -> None:
    """In another process than *process*, end it, as Python would end with *error*."""
    if os.getpid() != process:
        _end(error)


@cache
def _kept() -> WeakSet[Closing]:
    kept = WeakSet[Closing]()

    def close() -> None:
        for thing in kept:
            with suppress(OSError):
                thing.close()

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=close)
    return kept


def _end(error: BaseException | None) -> NoReturn:
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(_code_of(error))


def _code_of(error: BaseException | None) -> int:
    if error is None:
        return 0
    if not isinstance(error, SystemExit):
        return FAILED
    code = error.code or 0
    return code & 0xFF if isinstance(code, int) else FAILED
