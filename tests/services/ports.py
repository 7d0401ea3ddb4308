"""Free ports on the loopback interface."""

import fcntl
import os
import secrets
import socket
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

from tests.services.errors import ServiceError

# Below the range from which the kernel takes the local ports of outgoing connections: a port that
# is free now is not taken by somebody's connection before a slow server gets to listen on it.
_PORTS = range(20_000, 32_000)
_given: set[int] = set()


def free_port() -> int:
    """Return a port of 127.0.0.1 that nobody listens on and that was not returned before.

    Nor is it returned to another process of the tests, as long as this one lives.
    """
    for _ in range(1000):
        # Not `random`: pytest-randomly seeds it alike before each test, and in each run.
        port = secrets.choice(_PORTS)
        if port not in _given and _is_free(port) and _is_ours(port):
            _given.add(port)
            return port
    raise ServiceError("no free port on 127.0.0.1")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def _is_ours(port: int) -> bool:
    """Whether no other process holds the byte of *port*; the end of ours lets it go."""
    with suppress(BlockingIOError):
        fcntl.lockf(_claims(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
        return True
    return False


@cache
def _claims() -> int:
    """A file with a byte for each port: opened once, for closing it would let all of them go."""
    path = Path(tempfile.gettempdir()) / f"gemhooks-tests-ports-{os.getuid()}.lock"
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
