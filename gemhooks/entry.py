"""How every program of ours ends: an exit code, and one sentence where something is wrong."""

import errno
import io
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from gemhooks import logs
from gemhooks.errors import GemhooksError, Misconfigured

MISCONFIGURED = 2  # starting again does not help
FAILED = 1
FULL = (errno.ENOSPC, errno.EDQUOT)  # a disk; where what a person asked for is to go, say
STDERR = 2  # the highest number of a stream


def run(program: Callable[[], int | None]) -> NoReturn:
    """Run *program* and exit; our own errors become one sentence on stderr, without a traceback."""
    _have_streams()
    _show_everything()
    _count_in_memory()
    try:
        code = program()
    except GemhooksError as error:
        logs.flush()  # the sentence comes last
        print(f"gemhooks: {error}", file=sys.stderr)  # noqa: T201 - not a log line: for a person
        sys.exit(MISCONFIGURED if isinstance(error, Misconfigured) else FAILED)
    except OSError as error:
        if error.errno not in FULL:
            raise
        _give_up_output()
        print(f"gemhooks: {error.strerror}.", file=sys.stderr)  # noqa: T201 - as above
        sys.exit(FAILED)
    sys.exit(code or 0)


def _give_up_output() -> None:
    """Python would try once more, at its end, and show that failure."""
    sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115


def _have_streams() -> None:
    """Where one was closed, nothing is read and what is written is gone.

    Else the next file or socket would get its number, and what is meant for the stream; libuv ends
    a process where that happens.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= STDERR:
        pass  # the lowest that is free
    os.close(number)
    nowhere = Path(os.devnull)
    sys.stdin = sys.stdin or nowhere.open(encoding="utf-8")
    sys.stdout = sys.stdout or nowhere.open("w", encoding="utf-8")
    sys.stderr = sys.stderr or nowhere.open("w", encoding="utf-8")


def _count_in_memory() -> None:
    """One process has one set of numbers: no files, which others share or a dead one left behind.

    prometheus_client decides by a variable, when it is imported; an image may have set it for
    another server.
    """
    for name in ("PROMETHEUS_MULTIPROC_DIR", "prometheus_multiproc_dir"):
        os.environ.pop(name, None)
    values: Any = sys.modules.get("prometheus_client.values")
    if values:
        values.ValueClass = values.MutexValue


def _show_everything() -> None:
    """In escapes where the place has no sign for it: an id must not end who prints it."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
