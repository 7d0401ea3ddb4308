"""What strangers may cost: memory, time, and other people's places."""

import socket
import threading
import tracemalloc
from collections.abc import Callable
from functools import partial

import pytest

from receiver.connections import Limits
from tests.receiver.serving import (
    PATH,
    Site,
    read_answer,
    read_to_end,
    request,
    served,
    status_of,
)
from tests.services.waiting import wait_until

CHUNKED = f"POST {PATH} HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
TOO_LARGE = f"POST {PATH} HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n".encode()
LONG = 60_000  # bytes
MANY = 100


def long_paths(number: int) -> bytes:
    return b"GET " + b"/" * (LONG + number) + b"livez HTTP/1.1\r\n\r\n"


def long_queries(number: int) -> bytes:
    return b"GET /livez?%d%s HTTP/1.1\r\n\r\n" % (number, b"x" * LONG)


def long_names(number: int) -> bytes:
    return b"GET /livez HTTP/1.1\r\nx%d%s: y\r\n\r\n" % (number, b"x" * LONG)


@pytest.mark.parametrize("asking", [long_paths, long_queries, long_names])
def test_nothing_long_of_a_request_is_kept(asking: Callable[[int], bytes]) -> None:
    with served() as site, site.connect() as client:
        tracemalloc.start()
        try:
            for number in range(MANY):
                client.sendall(asking(number))
                assert status_of(read_answer(client)) == 200
            kept, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

    assert kept < MANY * LONG / 4


def test_a_path_with_more_slashes_is_the_same_path() -> None:
    """A probe, too: what waits for a file must not wait on the loop."""
    threads: list[str] = []

    def ready() -> bool:
        threads.append(threading.current_thread().name)
        return True

    with served(ready=ready) as site:
        answer = site.exchange(request(method="GET", path="//readyz", more={"Connection": "close"}))
        assert status_of(answer) == 200
        assert site.status(request(path=f"/{PATH}")) == 204

    assert threads[0].startswith("probes")


def test_a_head_of_many_short_headers_is_refused_before_it_fills_the_memory() -> None:
    names = b"".join(b"%x:\r\n" % number for number in range(2000))
    with served() as site:
        assert site.status(b"GET /livez HTTP/1.1\r\n" + names) == 431
        assert site.status(b"GET /livez HTTP/1.1\r\n" + names + b"\r\n") == 431
    assert (site.count("too_large"), site.total()) == (2, 2)


def test_after_a_head_that_is_refused_no_other_is_answered() -> None:
    names = b"".join(b"%x:\r\n" % number for number in range(2000))
    with served() as site:
        whole = b"GET /livez HTTP/1.1\r\n" + names + b"\r\n"
        answers = site.exchange(request() + whole + request())

    assert [each[:3] for each in answers.split(b"HTTP/1.1 ")[1:]] == [b"204"]
    assert len(site.publisher.messages) == 1


@pytest.mark.parametrize("start", [b"0\r\nx: ", b"1;x="], ids=["trailer", "extension"])
def test_what_comes_with_a_body_without_being_one_is_refused_when_it_does_not_end(
    start: bytes,
) -> None:
    with served() as site, site.connect() as client:
        client.sendall(CHUNKED + start + b"x" * 300_000)

        assert status_of(read_answer(client)) == 431
        wait_until(lambda: not site.clients(), "it is let go")
        assert site.server.connections.uploads == 0


def test_a_large_body_before_a_head_does_not_count_as_one() -> None:
    """Both come in one read where the loop was busy meanwhile."""
    second = request()
    with served() as site, site.connect() as client:
        for _ in range(8):  # until the system gives it room enough
            client.sendall(request(b"x" * 1_000_000))
            assert status_of(read_answer(client)) == 204
        with site.held():
            client.sendall(request(b"x" * 250_000) + second[:20])
        assert status_of(read_answer(client)) == 204
        client.sendall(second[20:])
        assert status_of(read_answer(client)) == 204


def test_who_is_refused_while_sending_gives_way_to_the_next() -> None:
    with served(limits=Limits(connections=4)) as site:
        refused = [site.connect() for _ in range(4)]
        for each in refused:
            each.sendall(TOO_LARGE)
            assert status_of(read_answer(each)) == 413

        assert site.status(request()) == 204
        assert read_to_end(refused[0]) == b""
        for each in refused:
            each.close()


def test_who_leaves_its_last_answers_unread_is_let_go() -> None:
    """They are fewer than would tell us that it does not read."""
    batch = request(method="GET") * 10
    limits = Limits(keep_alive=3.0, write_seconds=0.2)  # it asks again before three seconds
    with served(limits=limits) as site, socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        client.connect(("127.0.0.1", site.port))
        for _ in range(30):
            sent = site.total() + 10
            client.sendall(batch)
            wait_until(partial(answered, site, sent), "they are answered")

        wait_until(lambda: not site.clients(), "it is let go")


def answered(site: Site, most: float) -> bool:
    return site.total() >= most
