import socket
from collections.abc import Iterator
from contextlib import closing

import pytest
import urllib3

from gemhooks.errors import GemhooksError, Gone, NotYet, Refused, Retry
from gemhooks.gemini import rest
from gemhooks.gemini.pools import Pools, PublicConnection
from gemhooks.gemini.rest import Rest, bounded
from gemhooks.settings import Settings
from tests.gemhooks.gemini.scripted import ScriptedServer

KEY = "AIza-not-a-real-key-0123456789"


@pytest.fixture
def api(server: ScriptedServer) -> Iterator[Rest]:
    with closing(Rest(KEY, base_url=server.url, timeout=60.0)) as api:
        yield api


def test_an_answer_comes_as_it_was_sent_and_parsed(server: ScriptedServer, api: Rest) -> None:
    server.answer(200, b'{ "a" : 1 }')

    assert api.json("batches/b1") == (b'{ "a" : 1 }', {"a": 1})
    assert server.seen == [("GET", "/v1/batches/b1", KEY)]


@pytest.mark.parametrize(
    ("status", "ours"),
    [
        (400, Refused),
        (401, Refused),
        (403, Refused),
        (404, NotYet),
        (410, Gone),
        (408, Retry),
        (429, Retry),
        (500, Retry),
        (503, Retry),
        (204, Refused),
    ],
)
def test_a_status_means_here_what_it_means_elsewhere(
    server: ScriptedServer, api: Rest, status: int, ours: type[GemhooksError]
) -> None:
    server.answer(status, b'{"error":{"message":"bad %s"}}' % KEY.encode(), Retry_After="7")

    with pytest.raises(ours) as caught:
        api.json("batches/b1")

    assert KEY not in str(caught.value)
    if status in (429, 503) and isinstance(caught.value, Retry):
        assert (caught.value.after, caught.value.at_least) == (None, 7)


@pytest.mark.parametrize("body", [b"", b"{", b"<html>", b"[" * 100_000])
def test_what_is_no_json_is_asked_for_again(server: ScriptedServer, api: Rest, body: bytes) -> None:
    server.answer(200, body)

    with pytest.raises(Retry, match="malformed"):
        api.json("batches/b1")


def test_an_answer_that_is_too_large_is_refused(
    server: ScriptedServer, api: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rest, "LARGEST_ANSWER", 10)
    server.answer(200, b'{"a":"01234567"}')

    with pytest.raises(Refused, match="larger"):
        api.json("batches/b1")


def test_an_answer_that_drips_is_given_up() -> None:
    def dripping() -> Iterator[bytes]:
        while True:
            yield b" "

    with pytest.raises(Retry, match="in time"):
        bounded(dripping(), 0.001)


def test_a_server_that_never_answers_is_given_up_in_time(server: ScriptedServer) -> None:
    server.answer(0, b"")

    with closing(Rest(KEY, base_url=server.url, timeout=0.2)) as api, pytest.raises(Retry):
        api.json("batches/b1")


def test_nobody_there_is_a_retry() -> None:
    with closing(Rest(KEY, base_url="http://127.0.0.1:1", timeout=1.0)) as api:  # noqa: SIM117
        with pytest.raises(Retry, match="cannot be reached"):
            api.json("batches/b1")


def test_a_redirect_within_gemini_is_followed_with_the_key(
    server: ScriptedServer, api: Rest
) -> None:
    server.answer(302, b"", Location="/v1/elsewhere")
    server.answer(200, b"{}")

    assert api.json("batches/b1") == (b"{}", {})
    assert [(path, key) for _, path, key in server.seen] == [
        ("/v1/batches/b1", KEY),
        ("/v1/elsewhere", KEY),
    ]


def test_a_redirect_to_a_stranger_is_refused_and_the_stranger_never_asked(
    server: ScriptedServer, elsewhere: ScriptedServer, api: Rest
) -> None:
    elsewhere.answer(200, b"{}")
    server.answer(302, b"", Location=f"{elsewhere.url}/x")

    with pytest.raises(Refused, match="not fetched from"):
        api.json("batches/b1")

    assert not elsewhere.seen


def test_redirects_in_a_circle_end(server: ScriptedServer, api: Rest) -> None:
    server.answer(302, b"", Location="/v1/again")

    with pytest.raises(Refused, match="302"):
        api.json("batches/b1")

    assert len(server.seen) == rest.MOST_REDIRECTS + 1


@pytest.mark.parametrize(
    ("url", "ours"),
    [
        ("https://generativelanguage.googleapis.com/v1beta/files/a:download?alt=media", True),
        ("https://storage.googleapis.com/b/x.mp4", False),
        ("https://lh3.googleusercontent.com/x", False),
        ("https://STORAGE.googleapis.com./b/x.mp4", False),
    ],
)
def test_only_geminis_own_hosts_see_the_key(url: str, *, ours: bool) -> None:
    assert Rest(KEY, hosts=Settings().fetch_hosts).place(url).ours is ours


@pytest.mark.parametrize(
    "url",
    [
        "http://storage.googleapis.com/x",
        "https://storage.googleapis.com:8443/x",
        "https://storage.googleapis.com@evil.test/x",
        "https://user:word@storage.googleapis.com/x",
        "https://evil.test/storage.googleapis.com",
        "https://storage.googleapis.com.evil.test/x",
        "https://googleusercontent.com.evil.test/x",
        "https://evilgoogleusercontent.com/x",
        "https://169.254.169.254/latest/meta-data",
        "https://[::1]/x",
        "https://localhost/x",
        "http://127.0.0.1:8080/x",
        "https://",
        "https://[",
        "https://storage.googleapis.com:99999/x",
        "http:storage.googleapis.com/x",
    ],
)
def test_any_other_place_is_refused(url: str) -> None:
    with pytest.raises(Refused):
        Rest(KEY, hosts=Settings().fetch_hosts).place(url)


def test_a_host_that_was_configured_is_asked_without_the_key() -> None:
    api = Rest(KEY, base_url="http://127.0.0.1:9/prefix", hosts=("Media.example",))

    assert not api.place("https://media.example/x").ours
    assert api.place("http://127.0.0.1:9/prefix/v1/files/a").ours
    assert api.place("files/a").url == "http://127.0.0.1:9/prefix/v1/files/a"
    with pytest.raises(Refused):
        api.place("https://storage.googleapis.com/x")


def test_a_strangers_name_that_leads_inside_gets_not_a_byte() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as inside:
        connection = PublicConnection("localhost", inside.getsockname()[1], timeout=5)

        with pytest.raises(Refused, match="private"):
            connection.connect()

        reached, _ = inside.accept()
        with closing(reached):
            assert reached.recv(1) == b""


def test_strangers_are_asked_over_connections_that_check_the_address() -> None:
    with closing(Pools(1.0)) as pools:
        pool = pools.of("https", "storage.googleapis.com", own=False)

        assert pool.connection_from_url("https://storage.googleapis.com").ConnectionCls is (
            PublicConnection
        )
        own = pools.of("https", "generativelanguage.googleapis.com", own=True)
        url = "https://generativelanguage.googleapis.com"
        assert own.connection_from_url(url).ConnectionCls is not PublicConnection


def test_a_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://proxy.test:3128")
    monkeypatch.setenv("no_proxy", "near.test")
    with closing(Pools(1.0)) as pools:
        pool = pools.of("https", "storage.googleapis.com", own=False)

        assert isinstance(pool, urllib3.ProxyManager)
        assert not isinstance(pools.of("https", "near.test", own=True), urllib3.ProxyManager)
