"""A listener for webhooks, the simulator, and the official client pointed at it."""

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from google import genai
from google.genai import types

from gemhooks.simulator import Call, CallFunctions, Fail, Say, Script, Simulator

SCRIPTS = (
    Script(
        when="weather",
        turns=(
            CallFunctions(
                calls=(
                    Call(name="get_weather", arguments={"city": "Paris"}),
                    Call(name="get_time", arguments={"city": "Paris"}),
                )
            ),
            Say(text="Got {results}."),
        ),
    ),
    Script(when="break", turns=(Fail(code=13, message="It broke."),)),
    Script(when="slowly", turns=(Say(text="At last.", delay=600),)),
)


@dataclass(frozen=True)
class Received:
    headers: Mapping[str, str]
    body: bytes


class Listener:
    """Answers with the statuses it was given, then with 204, and keeps all it got."""

    def __init__(self) -> None:
        self.statuses: list[int] = []
        self._changed = threading.Condition()
        self._received: list[Received] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=lambda: self._server.serve_forever(0.02))
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/webhooks/gemini"

    def wait(self, count: int, timeout: float = 60) -> list[Received]:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self._received) >= count, timeout)
            return list(self._received)

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def take(self, received: Received) -> int:
        with self._changed:
            self._received.append(received)
            self._changed.notify_all()
            return self.statuses.pop(0) if self.statuses else 204

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        listener = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                self.send_response(listener.take(Received(headers, body)))
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - theirs
                pass

        return Handler


@pytest.fixture
def listener() -> Iterator[Listener]:
    listener = Listener()
    yield listener
    listener.close()


@pytest.fixture
def gemini() -> Iterator[Simulator]:
    with Simulator(delay=0.01, retry_base=0.01, scripts=SCRIPTS) as simulator:
        yield simulator


@pytest.fixture
def connect() -> Iterator[Callable[[str], genai.Client]]:
    clients: list[genai.Client] = []

    def connect(url: str, version: str = "v1", **more: Any) -> genai.Client:
        # Without `verify`, each client would first read all of the world's certificates.
        quick: Any = {"client_args": {"verify": False}, "async_client_args": {"verify": False}}
        options = types.HttpOptions(
            base_url=url, api_version=version, timeout=60_000, **quick, **more
        )
        clients.append(genai.Client(api_key="any", http_options=options))
        return clients[-1]

    yield connect
    for client in clients:
        client.close()


@pytest.fixture
def client(gemini: Simulator, connect: Callable[[str], genai.Client]) -> genai.Client:
    return connect(gemini.url)
