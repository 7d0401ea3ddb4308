"""The simulator as a process, and what it refuses to start with."""

import signal
import socket
import subprocess
import sys

import pytest
import urllib3

from gemhooks.errors import Misconfigured
from gemhooks.simulator import Simulator

SERVE = (
    "from gemhooks.simulator import serve;"
    "serve(0, announce=lambda simulator: print(simulator.url, flush=True))"
)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly(number: signal.Signals) -> None:
    command = [sys.executable, "-c", SERVE]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        with urllib3.PoolManager() as http:
            assert http.request("GET", f"{url}/livez").status == 200
        process.send_signal(number)
        assert process.wait(60) == 0


def test_a_malformed_secret_is_refused_without_being_shown() -> None:
    with pytest.raises(Misconfigured) as raised:
        Simulator(secret="whsec_not base64")
    assert "not base64" not in str(raised.value)


def test_a_port_that_is_taken_is_an_error_and_not_the_end_of_the_process() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="in use"):
        Simulator(taken.getsockname()[1])
