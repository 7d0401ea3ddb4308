"""Health and metrics over HTTP, on a thread of their own."""

import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from gemhooks import forks
from gemhooks.errors import Misconfigured

Answer = tuple[int, str, bytes]
TEXT = "text/plain; charset=utf-8"


class AdminServer:
    """Serves /livez, /readyz and /metrics; port 0 picks a free one."""

    def __init__(
        self,
        host: str,
        port: int,
        registry: CollectorRegistry,
        live: Callable[[], bool],
        ready: Callable[[], bool],
    ) -> None:
        self._host, self.port = host, port
        self._answers: dict[str, Callable[[], Answer]] = {
            "/livez": lambda: _health(live),
            "/readyz": lambda: _health(ready),
            "/metrics": lambda: (200, CONTENT_TYPE_LATEST, generate_latest(registry)),
        }
        self._server: ThreadingHTTPServer | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Listen; Misconfigured when the port can't be had."""
        try:
            server = _server_at(self._host, self.port, _handler(self._answers))
        except socket.gaierror as error:
            raise Misconfigured(
                f"GEMHOOKS_ADMIN_HOST: {self._host} is no address: {error.strerror}."
            ) from None
        except OSError as error:
            raise Misconfigured(
                f"GEMHOOKS_ADMIN_PORT: can't listen on {self._host}:{self.port}: {error.strerror}."
            ) from None
        forks.keep(server.socket)
        self._server, self.port = server, server.server_address[1]
        self._thread = threading.Thread(
            target=server.serve_forever, args=(0.05,), name="admin", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        if self._server is None or self._thread is None:
            return
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self._server = None


def _server_at(host: str, port: int, handler: type[BaseHTTPRequestHandler]) -> "_Server":
    return (_Server6 if ":" in host else _Server)((host, port), handler)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False  # a silent client must not hold up the end of the process

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hung up is no event; the default prints a traceback."""


class _Server6(_Server):
    """Of IPv6; :: is every address, those of IPv4 too."""

    address_family = socket.AF_INET6

    def server_bind(self) -> None:
        if self.server_address[0] == "::" and socket.has_dualstack_ipv6():
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()


def _health(check: Callable[[], bool]) -> Answer:
    return (200, TEXT, b"ok\n") if check() else (503, TEXT, b"not ready\n")


def _handler(answers: dict[str, Callable[[], Answer]]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 10  # seconds of silence

        def do_GET(self) -> None:
            self.wfile.write(self._begun())

        def do_HEAD(self) -> None:  # wget --spider, load balancers
            self._begun()

        def _begun(self) -> bytes:
            """Send the head; the body that belongs to it."""
            found = answers.get(self.path.partition("?")[0])
            status, kind, body = found() if found else (404, TEXT, b"not found\n")
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            return body

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its base says so
            """Probes every few seconds are no news."""

    return Handler
