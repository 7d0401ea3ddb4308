"""A port that is closed while others knock."""

import socket
import sys
from concurrent.futures import Future
from contextlib import suppress

import pytest

from receiver.turning_away import turn_away
from tests.receiver.serving import TIMEOUT, read_answer, request, served, status_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has the filter")

BRIEFLY = 0.3  # seconds; the kernel knocks again after one


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_who_knocked_is_let_in_and_who_comes_later_is_not(host: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family) as listener:
        address = listener.getsockname()[:2]
        with socket.create_connection(address, timeout=BRIEFLY) as early:
            turn_away(listener)

            with pytest.raises(TimeoutError):
                socket.create_connection(address, timeout=BRIEFLY)
            taken, _ = listener.accept()
            with taken:
                early.sendall(b"1")
                assert taken.recv(1) == b"1"


@pytest.mark.parametrize("is_early", [True, False], ids=["before", "in between"])
def test_who_knocks_while_the_port_closes_is_answered_or_not_let_in(
    monkeypatch: pytest.MonkeyPatch, *, is_early: bool
) -> None:
    knocked: Future[socket.socket | None] = Future()
    with served() as site:
        drain = site.server.connections.drain

        def knock() -> None:
            knocked.set_result(connected(site.port))

        def drain_while_one_knocks() -> None:
            if is_early:
                knock()
            drain()
            if not is_early:
                site.loop.call_soon(knock)

        monkeypatch.setattr(site.server.connections, "drain", drain_while_one_knocks)
        site.stop()
        client = knocked.result(TIMEOUT)

        assert client or not is_early
        if client:
            with client:
                assert status_of(read_answer(client)) == 204


def connected(port: int) -> socket.socket | None:
    """A client that has sent its request; None where it was not let in."""
    with suppress(TimeoutError):
        client = socket.create_connection(("127.0.0.1", port), timeout=BRIEFLY)
        client.settimeout(TIMEOUT)  # once it is in, it is answered, however busy the machine is
        client.sendall(request())
        return client
    return None
