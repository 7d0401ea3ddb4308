"""Functions with processes of their own, for the tests: a process imports this module."""

import os
import time
from typing import Any

from gemhooks.functions import CallContext, Functions

functions = Functions(process_memory=1024**3)
TIMEOUT = 5.0  # seconds; by then it has written its note


@functions.function(isolation="process", timeout=60)
def who(context: CallContext) -> dict[str, Any]:
    return {"pid": os.getpid(), "parent": os.getppid(), "key": context.idempotency_key}


@functions.function(isolation="process", timeout=60)
async def later(word: str) -> str:
    return f"later {word}"


@functions.function(isolation="process", timeout=TIMEOUT)
def hang(note: str) -> None:
    with open(note, "w") as file:  # noqa: PTH123 - one test's
        file.write(str(os.getpid()))
    while True:
        time.sleep(0.1)


@functions.function(isolation="process", timeout=60)
def die() -> None:
    os._exit(7)


@functions.function(isolation="process", timeout=60)
def eat() -> int:
    return len(bytearray(2 * 1024**3))


@functions.function(isolation="process", timeout=60)
def fail() -> None:
    raise RuntimeError("out of order")


def _renamed() -> str:
    return "here"


functions.function(isolation="process", name="lost")(_renamed)
