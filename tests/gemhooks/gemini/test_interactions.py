import io
import json
import logging
import socket
import time
import traceback
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from email.utils import formatdate
from threading import Thread

import pytest

from gemhooks.errors import AnswerLost, GemhooksError, Gone, Misconfigured, NotYet, Refused, Retry
from gemhooks.gemini import Gemini
from tests.gemhooks.gemini.scripted import ScriptedServer

KEY = "AIza-not-a-real-key-0123456789"
GOOD = b'{ "id":"int_1",  "status":"completed" }'


@pytest.fixture
def gemini(server: ScriptedServer) -> Iterator[Gemini]:
    with closing(Gemini(KEY, base_url=server.url, timeout=60.0)) as gemini:
        yield gemini


def test_an_interaction_comes_with_the_very_bytes_that_were_sent(
    server: ScriptedServer, gemini: Gemini
) -> None:
    server.answer(200, GOOD)

    fetched = gemini.interactions.get("int_1")

    assert fetched.raw == GOOD
    assert fetched.parsed["status"] == "completed"
    assert server.seen[0][2] == KEY


def test_a_large_number_in_an_argument_is_not_rounded(
    server: ScriptedServer, gemini: Gemini
) -> None:
    """A function that charges an account must not be given its neighbour's number."""
    account = 10**20 + 1
    server.answer(200, json.dumps({"id": "int_1", "steps": [{"account": account}]}).encode())

    assert gemini.interactions.get("int_1").parsed["steps"] == [{"account": account}]


@pytest.mark.parametrize(
    ("wanted", "segment"),
    [
        ("../x", "..%2Fx"),
        ("int_1?alt=x", "int_1%3Falt%3Dx"),
        ("a#b", "a%23b"),
        ("a%2Fb", "a%252Fb"),
        ("ü /", "%C3%BC%20%2F"),
        ("interactions/v1_x", "v1_x"),
    ],
)
def test_any_id_reaches_the_server_as_one_segment_of_the_path(
    server: ScriptedServer, gemini: Gemini, wanted: str, segment: str
) -> None:
    server.answer(200, json.dumps({"id": wanted}).encode())

    fetched = gemini.interactions.get(wanted)

    assert fetched.id == wanted
    path = server.seen[0][1].partition("?")[0]
    assert path.endswith(f"/interactions/{segment}")


@pytest.mark.parametrize("wanted", [".", "..", ""])
def test_an_id_that_a_path_swallows_is_refused_unsent(
    server: ScriptedServer, gemini: Gemini, wanted: str
) -> None:
    with pytest.raises(Refused):
        gemini.interactions.get(wanted)

    assert not server.seen


def test_a_404_is_not_yet_and_may_be_found_the_next_time(
    server: ScriptedServer, gemini: Gemini
) -> None:
    server.answer(404, b'{"error":{"code":404,"message":"nope"}}')
    server.answer(200, GOOD)

    with pytest.raises(NotYet) as caught:
        gemini.interactions.get("int_1")

    assert caught.value.reason == "not_found"
    assert gemini.interactions.get("int_1").id == "int_1"


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
@pytest.mark.parametrize("body", [b"{}", b"busy", b""])
def test_a_busy_server_is_asked_once_and_later_again(
    server: ScriptedServer, gemini: Gemini, status: int, body: bytes
) -> None:
    server.answer(status, body)

    with pytest.raises(Retry) as caught:
        gemini.interactions.get("int_1")

    assert str(status) in caught.value.reason
    assert caught.value.at_least == 0.0
    assert len(server.seen) == 1


@pytest.mark.parametrize(
    ("header", "at_least"),
    [
        ("77", 77.0),
        ("86400", 3600.0),
        ("1e300", 3600.0),
        ("inf", 0.0),
        ("nan", 0.0),
        ("-5", 0.0),
        ("soon", 0.0),
    ],
)
def test_retry_after_is_kept_up_to_an_hour(
    server: ScriptedServer, gemini: Gemini, header: str, at_least: float
) -> None:
    server.answer(429, b"{}", Retry_After=header)

    with pytest.raises(Retry) as caught:
        gemini.interactions.get("int_1")

    assert caught.value.at_least == at_least


def test_retry_after_may_be_a_date(server: ScriptedServer, gemini: Gemini) -> None:
    server.answer(503, b"{}", Retry_After=formatdate(time.time() + 600, usegmt=True))

    with pytest.raises(Retry) as caught:
        gemini.interactions.get("int_1")

    assert caught.value.at_least == pytest.approx(600, abs=30)


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_is_said_so_without_the_key(
    server: ScriptedServer, gemini: Gemini, status: int
) -> None:
    server.answer(status, b'{"error":{"message":"bad key ' + KEY.encode() + b'"}}')

    with pytest.raises(Refused) as caught:
        gemini.interactions.get("int_1")

    assert "API key" in str(caught.value)
    assert KEY not in str(caught.value)


def test_what_gemini_says_is_gone_is_not_asked_for_again(
    server: ScriptedServer, gemini: Gemini
) -> None:
    server.answer(410, b'{"error":{"message":"deleted"}}')

    with pytest.raises(Gone):
        gemini.interactions.get("int_1")


def test_a_refused_request_says_what_the_server_said_bounded_and_without_the_key(
    server: ScriptedServer, gemini: Gemini
) -> None:
    said = f"no {KEY} " + "x" * 5000
    server.answer(400, json.dumps({"error": {"message": said}}).encode())

    with pytest.raises(Refused) as caught:
        gemini.interactions.get("int_1")

    assert "no [key] xxx" in str(caught.value)
    assert len(str(caught.value)) < 350


@pytest.mark.parametrize(
    "body",
    [b"null", b"[]", b'""', b"", b"{}", b"{", b'{"id":"other"}', b'{"id":null}', b"[" * 5000],
)
def test_an_answer_that_is_not_our_interaction_is_asked_for_again(
    server: ScriptedServer, gemini: Gemini, body: bytes
) -> None:
    server.answer(200, body)

    with pytest.raises(Retry, match="malformed answer"):
        gemini.interactions.get("int_1")


def test_a_page_of_html_is_no_interaction(server: ScriptedServer, gemini: Gemini) -> None:
    server.answer(200, b"<html>login</html>", "text/html")

    with pytest.raises(Retry, match="malformed answer"):
        gemini.interactions.get("int_1")


def test_a_server_that_never_answers_is_given_up_in_time(server: ScriptedServer) -> None:
    server.answer(0, b"")
    begun = time.monotonic()

    with (
        closing(Gemini(KEY, base_url=server.url, timeout=0.3)) as gemini,
        pytest.raises(Retry, match="cannot be reached"),
    ):
        gemini.interactions.get("int_1")

    assert time.monotonic() - begun < 120  # the import of the client is in it
    assert len(server.seen) == 1


def test_a_server_that_is_not_there_is_tried_later() -> None:
    with (
        closing(Gemini(KEY, base_url="http://127.0.0.1:1", timeout=1.0)) as gemini,
        pytest.raises(Retry, match="cannot be reached"),
    ):
        gemini.interactions.get("int_1")


def test_the_key_does_not_follow_a_redirect_to_another_host(
    server: ScriptedServer, elsewhere: ScriptedServer, gemini: Gemini
) -> None:
    elsewhere.answer(200, GOOD)
    server.answer(302, b"", Location=f"{elsewhere.url}/v1/interactions/int_1")

    with pytest.raises(Refused, match="302"):
        gemini.interactions.get("int_1")

    assert not elsewhere.seen


def test_create_is_sent_once_even_if_the_answer_is_lost(server: ScriptedServer) -> None:
    server.answer(0, b"")

    with closing(Gemini(KEY, base_url=server.url, timeout=0.5)) as gemini, pytest.raises(Retry):
        gemini.interactions.create(model="m", input="hi", background=True)

    assert [method for method, _, _ in server.seen] == ["POST"]


def test_create_gives_the_new_interaction(server: ScriptedServer, gemini: Gemini) -> None:
    server.answer(200, b'{"id":"int_2","status":"in_progress"}')

    created = gemini.interactions.create(
        model="m", input="hi", background=True, webhook_config={"uris": ["https://example.com"]}
    )

    assert created.id == "int_2"


def test_create_with_an_unknown_model_is_refused(server: ScriptedServer, gemini: Gemini) -> None:
    server.answer(404, b'{"error":{"message":"no such model"}}')

    with pytest.raises(Refused):
        gemini.interactions.create(model="m", input="hi")


def test_create_with_an_argument_nobody_knows_is_refused_unsent(
    server: ScriptedServer, gemini: Gemini
) -> None:
    with pytest.raises(Refused):
        gemini.interactions.create(model="m", bogus=1)

    assert not server.seen


@pytest.mark.parametrize("key", ["", "  ", "ключ", "a b", "a\nb"])
def test_a_key_that_cannot_be_one_is_told_at_once_and_not_shown(key: str) -> None:
    with pytest.raises(Misconfigured) as caught:
        Gemini(key)

    assert not key.strip() or key not in str(caught.value)


@pytest.fixture
def everything_logged() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    root = logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield stream
    root.removeHandler(handler)
    root.setLevel(before)


@pytest.mark.parametrize("status", [200, 302, 400, 401, 404, 429, 503, 0])
def test_the_key_is_in_no_log_error_or_traceback(
    server: ScriptedServer, everything_logged: io.StringIO, status: int
) -> None:
    server.answer(status, b'{"error":{"message":"' + KEY.encode() + b'"}}')
    told = ""

    with closing(Gemini(KEY, base_url=server.url, timeout=0.5)) as gemini:
        try:
            gemini.interactions.get("int_1")
        except GemhooksError as error:
            told = "".join(traceback.format_exception(error)) + repr(error)
        told += repr(gemini)

    assert "Error" in told or "errors" in told
    assert server.seen[0][2] == KEY
    assert KEY not in told
    assert KEY not in everything_logged.getvalue()


@contextmanager
def dropping() -> Iterator[str]:
    """A server that takes requests and hangs up: its URL."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def drop() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    with connection:
                        connection.recv(65536)

        thread = Thread(target=drop)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_a_start_that_was_cut_off_may_have_happened() -> None:
    with dropping() as url, closing(Gemini(KEY, base_url=url)) as gemini, pytest.raises(AnswerLost):
        gemini.interactions.create(model="m", input="x")


def test_a_start_that_never_left_did_not_happen() -> None:
    with (
        closing(Gemini(KEY, base_url="http://127.0.0.1:1", timeout=1.0)) as gemini,
        pytest.raises(Retry) as caught,
    ):
        gemini.interactions.create(model="m", input="x")

    assert not isinstance(caught.value, AnswerLost)


@pytest.mark.parametrize(
    ("status", "body", "lost"),
    [
        (200, b"{", True),
        (504, b"{}", True),
        (408, b"{}", True),
        (500, b"{}", False),
        (503, b"{}", False),
        (429, b"{}", False),
    ],
)
def test_what_a_server_answers_says_whether_a_start_may_have_happened(
    server: ScriptedServer, gemini: Gemini, status: int, body: bytes, *, lost: bool
) -> None:
    server.answer(status, body)

    with pytest.raises(Retry) as caught:
        gemini.interactions.create(model="m", input="x")

    assert isinstance(caught.value, AnswerLost) is lost
    assert len(server.seen) == 1
