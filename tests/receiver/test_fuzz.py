"""Whatever a stranger sends: 2xx, 4xx or 503, one line, one count, and never a traceback."""

import random
import socket
from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from tests.receiver.serving import BODY, PATH, Site, read_to_end, request, served, signed
from tests.receiver.test_schemes import DYNAMIC, document, ed25519_jwk, rsa_jwk, token, v1a
from tests.receiver.test_schemes import ED25519 as KEYS
from tests.receiver.test_schemes import settings as environment
from tests.services.website import Website

ALLOWED = {204, 400, 401, 404, 405, 408, 413, 415, 431, 503}
VISIBLE = st.characters(min_codepoint=33, max_codepoint=255, exclude_characters="\x7f")
TEXT = st.text(VISIBLE, max_size=200)
NAMES = st.sampled_from(
    [
        "webhook-id",
        "webhook-timestamp",
        "webhook-signature",
        "content-type",
        "content-encoding",
        "cookie",
        "authorization",
        "host",
        "x-request-id",
        "expect",
        "x_y",
    ]
)


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with Website() as jwks:
        jwks.body = document(rsa_jwk("r1"), ed25519_jwk(KEYS[1]))
        with served(env=environment(jwks)) as site:
            yield site


def statuses(answers: bytes) -> list[int]:
    return [int(each[:3]) for each in answers.split(b"HTTP/1.1 ")[1:]]


@settings(max_examples=150)
@given(
    headers=st.dictionaries(NAMES, TEXT, max_size=8),
    body=st.binary(max_size=300),
    path=st.sampled_from([PATH, DYNAMIC, f"{PATH}/x", "/"]),
    method=st.sampled_from(["POST", "GET", "PUT", "HEAD"]),
)
def test_any_headers_and_any_body_get_a_decent_answer(
    site: Site, headers: dict[str, str], body: bytes, path: str, method: str
) -> None:
    before = site.total()
    more = {"Connection": "close"}

    with capture_logs() as lines:
        whole = request(body, headers=headers, path=path, method=method, more=more)
        found = statuses(site.exchange(whole))

    assert len(found) == 1
    assert set(found) <= ALLOWED - {204, 503}
    assert [line["event"] for line in lines] == ["webhook_received"]
    assert site.total() == before + 1


@settings(max_examples=150)
@given(body=st.binary(max_size=300), kind=TEXT)
def test_any_signed_body_is_accepted(site: Site, body: bytes, kind: str) -> None:
    more = {"Content-Type": kind, "Connection": "close"}

    assert statuses(site.exchange(request(body, more=more))) == [204]
    assert site.publisher.messages[-1].body == body


def mutated(whole: bytes, dice: random.Random) -> bytes:
    """*whole* with a few bytes changed, lost, doubled or swapped."""
    found = bytearray(whole)
    for _ in range(dice.choice((1, 1, 1, 2, 5))):
        at = dice.randrange(len(found))
        piece = slice(at, at + dice.choice((1, 1, 2, 10)))
        change = dice.randrange(5)
        if change == 0:
            found[at] = dice.randrange(256)
        elif change == 1:
            del found[piece]
        elif change == 2:
            found[at:at] = found[piece] * dice.choice((1, 50))
        elif change == 3:
            found[at:at] = dice.choice((b"\r\n", b"\0", b"\xff", b":", b"%00", b",", b"."))
        else:
            found[piece] = found[piece][::-1]
    return bytes(found)


def templates() -> list[bytes]:
    close = {"Connection": "close"}
    framed = b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)
    head = request(b"", headers=signed(BODY), more={**close, "Transfer-Encoding": "chunked"})
    return [
        request(more=close),
        request(headers=v1a(), path=DYNAMIC, more=close),
        request(headers=token(), path=DYNAMIC, more=close),
        head.replace(b"Content-Length: 0\r\n", b"") + framed,
        request() + request(more=close),
    ]


def mutations(site: Site, number: int, seed: int) -> None:
    dice, whole = random.Random(seed), templates()
    before, answered = site.total(), 0
    with capture_logs() as lines:
        for n in range(number):
            with site.connect() as client:
                found = statuses(answers_to(client, mutated(whole[n % len(whole)], dice)))
            assert set(found) <= ALLOWED, found
            answered += len(found)
    outcomes = [line.get("outcome") for line in lines if line["event"] == "webhook_received"]

    assert not [line for line in lines if "exc_info" in line or line["log_level"] == "error"]
    assert {line["event"] for line in lines} == {"webhook_received"}
    assert site.total() - before == len(outcomes)
    assert 0 < answered <= len(outcomes)  # more, where the end came before a whole request


def answers_to(client: socket.socket, sent: bytes) -> bytes:
    try:
        client.sendall(sent)
        with suppress(OSError):  # it is closed already
            client.shutdown(socket.SHUT_WR)  # what is not whole need not be waited for
        return read_to_end(client)
    except ConnectionError:
        return b""  # we had sent more than the server cared to read


def test_a_few_mutations_of_valid_requests_break_nothing(site: Site) -> None:
    mutations(site, 300, seed=random.randrange(1 << 30))


@pytest.mark.slow
def test_ten_thousand_mutations_of_valid_requests_break_nothing(site: Site) -> None:
    mutations(site, 10_000, seed=7)
