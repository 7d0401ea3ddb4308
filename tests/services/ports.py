"""Free ports on the loopback interface."""

import secrets
import socket

from tests.services.errors import ServiceError

# Below the range from which the kernel takes the local ports of outgoing connections: a port that
# is free now is not taken by somebody's connection before a slow server gets to listen on it.
_PORTS = range(20_000, 32_000)
_given: set[int] = set()


def free_port() -> int:
    """Return a port of 127.0.0.1 that nobody listens on and that was not returned before."""
    for _ in range(1000):
        # Not `random`: pytest-randomly seeds it alike before each test, and in each run.
        port = secrets.choice(_PORTS)
        if port not in _given and _is_free(port):
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
