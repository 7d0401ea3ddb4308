"""Where the receiver listens, and what it says where it can't."""

import socket

import pytest

from gemhooks.errors import Misconfigured
from receiver.server import listen
from tests.services.ports import free_port


def reached(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=5).close()
    except ConnectionRefusedError:
        return False
    return True


@pytest.mark.parametrize(
    ("host", "by"),
    [("127.0.0.1", {"127.0.0.1"}), ("::1", {"::1"}), ("::", {"127.0.0.1", "::1"})],
)
def test_it_listens_where_it_was_told(host: str, by: set[str]) -> None:
    with listen(host, 0) as listener:
        port = listener.getsockname()[1]

        assert {each for each in ("127.0.0.1", "::1") if reached(each, port)} == by


@pytest.mark.parametrize(
    ("host", "sentence"),
    [
        ("no-such-host.invalid", "GEMHOOKS_HOST: no-such-host.invalid is no address: "),
        ("192.0.2.1", "GEMHOOKS_PORT: can't listen on 192.0.2.1:"),
    ],
)
def test_what_is_wrong_is_one_sentence_that_names_the_setting(host: str, sentence: str) -> None:
    with pytest.raises(Misconfigured, match=sentence) as caught:
        listen(host, free_port())

    assert "Unknown error" not in str(caught.value)
