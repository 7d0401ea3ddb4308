"""The receiver on a real server, byte by byte."""

import gc
import gzip
import socket
import struct
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import suppress

import pytest
from structlog.testing import capture_logs

from gemhooks import topology
from gemhooks.errors import PublishFailed
from gemhooks.messages import Message
from gemhooks.testing import MemoryPublisher
from receiver import connections
from receiver.connections import Limits
from receiver.requests import Incoming
from tests.receiver.serving import (
    BODY,
    PATH,
    SECRET,
    Site,
    read_answer,
    read_to_end,
    request,
    served,
    signed,
    status_of,
)
from tests.services.waiting import wait_until

CLOSE = {"Connection": "close"}


@pytest.fixture
def site() -> Iterator[Site]:
    with served(max_body=1024) as site:
        yield site


def chunked(*chunks: bytes) -> bytes:
    framed = b"".join(b"%x\r\n%b\r\n" % (len(each), each) for each in chunks)
    return framed + b"0\r\n\r\n"


def head(**more: str) -> bytes:
    """A signed head for BODY, whose framing is *more*."""
    lines = {"Host": "x", **signed(BODY), **{k.replace("_", "-"): v for k, v in more.items()}}
    text = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"POST {PATH} HTTP/1.1\r\n{text}\r\n".encode()


def test_a1_05_a_chunked_body_arrives_whole(site: Site) -> None:
    third = len(BODY) // 3
    chunks = chunked(BODY[:third], BODY[third:-third], BODY[-third:])

    assert site.status(head(transfer_encoding="chunked"), chunks) == 204
    assert site.publisher.messages[0].body == BODY


@pytest.mark.parametrize("codings", ["gzip, chunked", "deflate,chunked", "gzip, Chunked"])
@pytest.mark.parametrize("body", [BODY, gzip.compress(BODY)], ids=["plain", "compressed"])
def test_a1_07_a_body_that_is_encoded_for_its_way_is_415_whoever_signed_what(
    site: Site, codings: str, body: bytes
) -> None:
    sent = request(b"", headers=signed(body), more={"Transfer-Encoding": codings}).replace(
        b"Content-Length: 0\r\n", b""
    )

    assert site.status(sent, chunked(gzip.compress(BODY))) == 415
    assert site.count("encoded") == 1


H2C = {
    "Connection": "Upgrade, HTTP2-Settings",
    "Upgrade": "h2c",
    "HTTP2-Settings": "AAMAAABkAAQAoAAAAAIAAAAA",
}


@pytest.mark.parametrize("framing", ["content-length", "chunked"])
@pytest.mark.parametrize("other", ["h2c", "websocket"])
def test_an_offer_of_another_protocol_is_passed_over_and_the_body_read(
    site: Site, framing: str, other: str
) -> None:
    offer = {**H2C, "Upgrade": other}
    if framing == "chunked":
        whole = head(transfer_encoding="chunked", **offer) + chunked(BODY[:7], BODY[7:])
    else:
        whole = request(more=offer)
    middle = whole.index(b"\r\n\r\n") + 4

    for parts in ([whole], [whole[:middle], whole[middle:]]):
        answers = site.exchange(*parts, *parts, request(more=CLOSE))

        assert answers.count(b" 204 ") == 3
    assert {each.body for each in site.publisher.messages} == {BODY}


def test_an_offer_without_a_body_is_passed_over(site: Site) -> None:
    probe = request(b"", method="GET", path="/livez", more=H2C)
    answers = site.exchange(probe, probe, request(more=CLOSE))

    assert (answers.count(b" 200 OK"), answers.count(b" 204 ")) == (2, 1)


def test_who_offers_another_protocol_may_still_close(site: Site) -> None:
    offer = {**H2C, "Connection": "Upgrade, close"}

    assert status_of(site.exchange(request(more=offer))) == 204  # it is closed, or this waits


def test_a_tunnel_is_refused(site: Site) -> None:
    with site.connect() as client:
        client.sendall(b"CONNECT example.com:443 HTTP/1.1\r\nHost: x\r\n\r\n" + request())

        assert status_of(read_to_end(client)) == 400
    assert site.publisher.messages == []


@pytest.mark.parametrize("padding", [" ", "\t", " \t "])
def test_white_space_around_a_value_is_no_part_of_it(site: Site, padding: str) -> None:
    headers = {name: f"{padding}{value}{padding}" for name, value in signed(BODY).items()}

    assert site.status(request(headers=headers, more=CLOSE)) == 204
    assert site.publisher.messages[0].id == "msg_1"


@pytest.mark.parametrize("others", [("v1,AAAA", ""), ("", "v1,AAAA"), ("v1a,AAAA", "v1,BBBB")])
def test_signatures_may_come_in_several_lines_or_joined(
    site: Site, others: tuple[str, str]
) -> None:
    headers = signed(BODY)
    good = headers.pop("webhook-signature")
    entries = [each for each in (others[0], good, others[1]) if each]
    for lines in (entries, [", ".join(entries)]):
        sent = "".join(f"webhook-signature: {each}\r\n" for each in lines).encode()
        first, rest = request(headers=headers, more=CLOSE).split(b"\r\n", 1)

        assert site.status(first + b"\r\n" + sent + rest) == 204


def test_a1_04_a_body_may_arrive_in_pieces_that_split_a_character(site: Site) -> None:
    body = '{"type":"x","data":{"id":"👩‍🚀"}}'.encode()
    whole = request(body)
    middle = whole.index("🚀".encode()) + 2

    assert site.status(whole[:middle], whole[middle:]) == 204
    assert site.publisher.messages[0].body == body


@pytest.mark.parametrize("more", [{}, CLOSE], ids=["keep-alive", "close"])
@pytest.mark.parametrize("framing", ["content-length", "chunked"])
def test_a_body_beyond_the_limit_is_refused_before_it_ends(
    site: Site, framing: str, more: dict[str, str]
) -> None:
    if framing == "chunked":
        parts = [head(transfer_encoding="chunked", **more), b"800\r\n" + b"x" * 2048 + b"\r\n"]
    else:
        parts = [head(content_length="99999999", **more)]

    assert site.status(*parts) == 413
    assert site.publisher.messages == []
    assert site.count("too_large") == 1


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy the machine, what nobody wants has the time to come in."""
    monkeypatch.setattr(connections, "LINGER", 60.0)


@pytest.mark.usefixtures("patient")
def test_who_sends_too_much_reads_the_answer_instead_of_a_reset(site: Site) -> None:
    with site.connect() as client:
        client.sendall(head(content_length=str(8 << 20), **CLOSE))
        for _ in range(128):
            client.sendall(b"x" * 65536)

        assert status_of(read_to_end(client)) == 413


def test_one_connection_carries_many_requests(site: Site) -> None:
    with site.connect() as client:
        for _ in range(3):
            client.sendall(request())
            assert status_of(read_answer(client)) == 204

    assert len(site.publisher.messages) == 3


def test_pipelined_requests_are_answered_in_order(site: Site) -> None:
    answers = site.exchange(request(), request(method="GET"), request(more=CLOSE))

    assert [int(each[:3]) for each in answers.split(b"HTTP/1.1 ")[1:]] == [204, 405, 204]


@pytest.mark.parametrize(
    "method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "BREW", "post", "X-Y"]
)
def test_other_methods_are_told_which_is_allowed(site: Site, method: str) -> None:
    answer = site.exchange(request(method=method, more=CLOSE))

    assert status_of(answer) == 405
    assert b"\r\nAllow: POST\r\n" in answer


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"hello\r\n\r\n",
        b"POST / HTTP/9.9\r\n\r\n",
        b"CONNECT example.org:443 HTTP/1.1\r\nHost: example.org\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET http:// HTTP/1.1\r\n\r\n",
    ],
)
def test_what_is_no_http_is_400_one_line_and_one_count(site: Site, garbage: bytes) -> None:
    with capture_logs() as lines:
        answer = site.exchange(garbage)

    assert status_of(answer) == 400
    assert answer.endswith(b"\r\n\r\n")
    assert [(line["event"], line["outcome"]) for line in lines] == [
        ("webhook_received", "malformed")
    ]
    assert (site.count("malformed"), site.total()) == (1, 1)


def test_garbage_after_a_request_does_not_take_its_answer(site: Site) -> None:
    answer = site.exchange(request() + b"\0garbage\r\n\r\n")

    assert status_of(answer) == 204
    assert len(site.publisher.messages) == 1


def test_an_endless_head_is_refused(site: Site) -> None:
    with site.connect() as client:
        client.sendall(b"POST / HTTP/1.1\r\n" + b"".join(b"x-%d: y\r\n" % n for n in range(20_000)))

        assert status_of(read_answer(client)) == 431
    assert site.count("too_large") == 1


def test_a_client_that_says_nothing_is_let_go() -> None:
    with served(limits=Limits(head_seconds=0.1)) as site, site.connect() as client:
        assert read_to_end(client) == b""
    assert site.total() == 0


@pytest.mark.parametrize("part", [b"POST / HT", request()[:60], request()[:-1]])
def test_a_client_that_stops_half_way_is_answered_408_once(part: bytes) -> None:
    limits = Limits(head_seconds=0.2, body_seconds=0.2)
    with served(limits=limits) as site, site.connect_with(part) as client:
        assert status_of(read_to_end(client)) == 408
    assert (site.count("slow"), site.total()) == (1, 1)


def test_a_client_that_drips_is_let_go_all_the_same() -> None:
    begun = b"POST / HTTP/1.1\r\nx: "
    with served(limits=Limits(head_seconds=0.3)) as site, site.connect_with(begun) as client:
        started = time.monotonic()
        client.settimeout(0.02)
        found = b""
        while not found:
            assert time.monotonic() - started < 60
            with suppress(ConnectionError):  # then the answer is there
                client.sendall(b"x")
            try:
                found = client.recv(100)
            except TimeoutError:
                continue

    assert status_of(found) == 408


def test_a_client_that_hangs_up_half_way_is_counted_once(site: Site) -> None:
    with site.connect() as client:
        client.sendall(request()[:-1])
        wait_until(lambda: site.server.connections.uploads, "the request is seen")

    wait_until(lambda: site.total() == 1, "it is counted")
    assert site.count("client_gone") == 1


class Slow(MemoryPublisher):
    """Whose publishes end when a test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.futures: list[Future[None]] = []

    def publish(self, message: Message, *, exchange: str = topology.EVENTS) -> Future[None]:
        self.futures.append(Future())
        return self.futures[-1]

    def confirm(self) -> None:
        """All that came so far."""
        while self.futures:
            self.futures.pop().set_result(None)


def test_what_was_sent_ahead_by_a_client_that_hangs_up_is_counted_once_each() -> None:
    publisher = Slow()
    with served(publisher) as site:

        def is_counted() -> bool:
            publisher.confirm()
            return site.total() >= 5

        with site.connect_with(request() * 5) as client:
            wait_until(lambda: publisher.futures, "the first is begun")
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        wait_until(is_counted, "all are counted")

        assert site.total() == 5
        assert site.count("client_gone") > 0


@pytest.mark.usefixtures("patient")
def test_a_flood_of_requests_that_wait_for_no_answer_is_cut_short(site: Site) -> None:
    answers = site.exchange(request() * 1000)

    assert answers.count(b"HTTP/1.1 204") == answers.count(b"HTTP/1.1 ") <= 20
    assert len(site.publisher.messages) == answers.count(b"HTTP/1.1 204")


def test_a_client_that_never_reads_is_let_go() -> None:
    ask = request(method="GET")
    with served(limits=Limits(write_seconds=0.2)) as site, site.connect() as client:
        sent = 1
        client.sendall(ask)
        deadline = time.monotonic() + 60
        while site.clients() or sent == 1:
            assert time.monotonic() < deadline
            if site.total() >= sent:
                sent += 10
                with suppress(ConnectionError):  # it is let go in this moment
                    client.sendall(ask * 10)
            time.sleep(0.001)

    assert site.count("method_not_allowed") < sent


def test_silent_clients_give_way_to_those_who_speak() -> None:
    with served(limits=Limits(connections=4)) as site:
        silent = [site.connect() for _ in range(20)]
        for each in silent[:10]:
            each.sendall(request()[:-1])

        statuses = [site.status(request()) for _ in range(5)]

        assert statuses == [204] * 5
        assert site.clients() <= 4
        for each in silent:
            each.close()


def test_where_every_place_is_busy_the_next_is_asked_to_come_again() -> None:
    publisher = Slow()
    with served(publisher, limits=Limits(connections=2), publish_timeout=300.0) as site:
        busy = [site.connect() for _ in range(2)]
        for each in busy:
            each.sendall(request())
        wait_until(lambda: site.requests() == 2, "both are busy")

        answer = site.exchange()

        assert status_of(answer) == 503
        assert b"Retry-After: " in answer
        for future in publisher.futures:
            future.set_exception(PublishFailed("nacked"))
        assert [status_of(read_answer(each)) for each in busy] == [503, 503]
        for each in busy:
            each.close()
    assert site.count("overloaded") == 1


def test_a_client_that_only_stops_sending_still_gets_its_answer() -> None:
    publisher = MemoryPublisher(silent=True)
    with served(publisher, publish_timeout=-0.8) as site, site.connect() as client:
        client.sendall(request())
        client.shutdown(socket.SHUT_WR)

        assert status_of(read_to_end(client)) == 503


def test_bodies_beyond_what_the_memory_may_hold_are_asked_to_come_again() -> None:
    body = b"x" * 1000
    half = request(body)[:-1]
    with served(limits=Limits(uploads=1500)) as site, site.connect() as first:
        first.sendall(half)
        wait_until(lambda: site.server.connections.uploads, "the first is held")

        assert site.status(request(body)) == 503
        first.sendall(body[-1:])
        assert status_of(read_answer(first)) == 204
        assert site.status(request(body)) == 204
    assert site.count("overloaded") == 1


def test_slow_bodies_that_fill_the_memory_give_way_the_largest_first() -> None:
    slow = [request(b"x" * size)[:-1] for size in (500, 1000, 500)]
    with served(limits=Limits(uploads=2000)) as site:
        clients = [site.connect() for _ in slow]
        for each, half in zip(clients, slow, strict=True):
            each.sendall(half)
        wait_until(lambda: site.server.connections.uploads == 1997, "they fill it")

        assert [site.status(request()) for _ in range(5)] == [204] * 5
        assert status_of(read_to_end(clients[1])) == 503
        for each in (clients[0], clients[2]):
            each.sendall(b"x")
            assert status_of(read_answer(each)) == 204
        for each in clients:
            each.close()
    assert site.count("overloaded") == 1


def test_who_asks_before_sending_is_told_to_go_on_or_not_to(site: Site) -> None:
    with site.connect() as client:
        client.sendall(head(content_length=str(len(BODY)), expect="100-continue"))
        assert status_of(read_answer(client)) == 100
        client.sendall(BODY)
        assert status_of(read_answer(client)) == 204
    with site.connect() as client:
        client.sendall(head(content_length="99999999", expect="100-continue"))
        assert status_of(read_answer(client)) == 413


def test_an_answered_request_leaves_nothing_to_the_garbage_collector() -> None:
    publisher = MemoryPublisher(silent=True)
    with served(publisher, publish_timeout=-0.8) as site:
        gc.collect()
        gc.disable()
        try:
            assert site.status(request()) == 503
            wait_until(lambda: not any(type(each) is Incoming for each in gc.get_objects()), "gone")
        finally:
            gc.enable()


def test_http_1_0_is_understood(site: Site) -> None:
    assert status_of(site.exchange(request().replace(b"HTTP/1.1", b"HTTP/1.0"))) == 204
    assert site.publisher.messages[0].body == BODY


def test_at_the_end_a_request_on_its_way_is_answered_and_closes_its_connection() -> None:
    with served(limits=Limits(last_call=300), grace=300) as site, site.connect() as client:
        client.sendall(request())
        read_answer(client)
        site.stop()
        wait_until(lambda: not is_open(site.port), "the port is closed")

        client.sendall(request())
        answer = read_to_end(client)

    assert status_of(answer) == 204
    assert b"\r\nConnection: close\r\n" in answer
    assert len(site.publisher.messages) == 2


def test_at_the_end_a_connection_that_says_nothing_is_closed() -> None:
    with served(limits=Limits(last_call=0.1), grace=20) as site, site.connect() as client:
        client.sendall(request())
        read_answer(client)
        site.stop()

        assert read_to_end(client) == b""


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_the_published_are_those_that_were_signed(site: Site) -> None:
    assert site.status(request()) == 204
    assert site.status(request(headers=signed(BODY + b" "))) == 401
    assert site.status(request(headers=signed(BODY, secret=SECRET[:-4] + "AAAA"))) == 401
    assert len(site.publisher.messages) == 1
