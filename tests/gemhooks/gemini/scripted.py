"""A server that answers what a test tells it to."""

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any


class ScriptedServer(ThreadingHTTPServer):
    """Answers with the script's entries in turn, the last one for ever."""

    daemon_threads = True

    def __init__(self, host: str = "127.0.0.1") -> None:
        super().__init__((host, 0), Scripted)
        self.script: list[tuple[int, bytes, dict[str, str]]] = []
        self.seen: list[tuple[str, str, str | None]] = []
        self.released = Event()  # lets hanging requests go when the test is over

    @property
    def url(self) -> str:
        return f"http://{self.server_address[0]!s}:{self.server_port}"

    def answer(
        self, status: int, body: bytes, content_type: str = "application/json", **headers: str
    ) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.script.append((status, body, {"Content-Type": content_type, **named}))


class Scripted(BaseHTTPRequestHandler):
    server: ScriptedServer  # pyright: ignore[reportIncompatibleVariableOverride]  # typeshed's way

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.seen.append((self.command, self.path, self.headers.get("x-goog-api-key")))
        script = self.server.script
        status, body, headers = script.pop(0) if len(script) > 1 else script[0]
        if not status:
            self.server.released.wait(300)
            return
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET  # noqa: N815 - the name that the base looks for

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base's name
        """Keep quiet."""


def serving(host: str) -> Iterator[ScriptedServer]:
    server = ScriptedServer(host)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.released.set()
    server.shutdown()
    thread.join()
    server.server_close()
