"""A receiver on a real port, inside the test's process."""

import asyncio
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

import uvloop
from prometheus_client import CollectorRegistry

from gemhooks.settings import Settings
from gemhooks.signing import decode_secret, sign_v1
from gemhooks.testing import MemoryPublisher
from receiver.connections import DEFAULT, Limits
from receiver.server import Server, server_of
from receiver.wiring import key_ring, receiver_of

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
BODY = b'{"type": "interaction.completed", "data": {"id": "int_1"}}'
PATH = "/webhooks/gemini"
TIMEOUT = 60.0  # seconds; by then a test has failed


def signed(
    body: bytes, webhook_id: str = "msg_1", *, secret: str = SECRET, at: int | None = None
) -> dict[str, str]:
    """The headers of a static webhook."""
    now = int(time.time()) if at is None else at
    return {
        "webhook-id": webhook_id,
        "webhook-timestamp": str(now),
        "webhook-signature": sign_v1(webhook_id, now, body, decode_secret(secret)),
    }


def request(
    body: bytes = BODY,
    *,
    headers: Mapping[str, str] | None = None,
    path: str = PATH,
    method: str = "POST",
    more: Mapping[str, str] | None = None,
) -> bytes:
    """A whole request, as bytes; signed unless *headers* are given."""
    lines = {"Host": "x", "Content-Length": str(len(body)), **(more or {})}
    lines |= signed(body) if headers is None else headers
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + body


@dataclass
class Site:
    """A running receiver: its port, what it published, what it counted."""

    port: int
    publisher: MemoryPublisher
    registry: CollectorRegistry
    server: Server
    loop: asyncio.AbstractEventLoop
    end: asyncio.Event

    def stop(self) -> None:
        """As SIGTERM does."""
        with suppress(RuntimeError):  # it has ended
            self.loop.call_soon_threadsafe(self.end.set)

    def requests(self) -> int:
        """Those that were begun and are not answered."""
        return len(self.server.connections.adapter)

    def clients(self) -> int:
        """Those that are connected."""
        return len(self.server.connections.open)

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=TIMEOUT)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep the loop busy meanwhile: what is sent until then comes in together."""
        begun, end = threading.Event(), threading.Event()

        def wait() -> None:
            begun.set()
            end.wait(TIMEOUT)

        self.loop.call_soon_threadsafe(wait)
        assert begun.wait(TIMEOUT)
        try:
            yield
        finally:
            end.set()

    def connect_with(self, sent: bytes) -> socket.socket:
        """A client that has said that much when it is let in."""
        with self.held():
            client = self.connect()
            client.sendall(sent)
            return client

    def exchange(self, *parts: bytes) -> bytes:
        """Send *parts* and return all that comes until the connection is closed."""
        with self.connect() as client:
            for part in parts:
                client.sendall(part)
            return read_to_end(client)

    def status(self, *parts: bytes) -> int:
        """Send *parts* and return the status of the first answer."""
        with self.connect() as client:
            for part in parts:
                client.sendall(part)
            return status_of(read_answer(client))

    def count(self, outcome: str, event_type: str = "other", scheme: str = "none") -> float:
        labels = {"event_type": event_type, "scheme": scheme, "outcome": outcome}
        found = self.registry.get_sample_value("gemhooks_webhook_requests_total", labels)
        return found or 0.0

    def failures(self, reason: str) -> float:
        name = "gemhooks_webhook_signature_failures_total"
        return self.registry.get_sample_value(name, {"reason": reason}) or 0.0

    def total(self) -> float:
        """All requests that were counted."""
        return sum(
            sample.value
            for metric in self.registry.collect()
            for sample in metric.samples
            if sample.name == "gemhooks_webhook_requests_total"
        )


def read_to_end(client: socket.socket) -> bytes:
    found = b""
    while part := client.recv(65536):
        found += part
    return found


def read_answer(client: socket.socket) -> bytes:
    """One answer's head; ours have no body, but for those of the health checks."""
    found = b""
    while b"\r\n\r\n" not in found:
        part = client.recv(65536)
        if not part:
            break
        found += part
    return found


def status_of(answer: bytes) -> int:
    """The status of an answer; 0 if there is none."""
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.1 ") else 0


@contextmanager
def served(
    publisher: MemoryPublisher | None = None,
    *,
    env: Mapping[str, str] | None = None,
    limits: Limits = DEFAULT,
    grace: float = 5.0,
    **more: Any,
) -> Iterator[Site]:
    """Serve on a loop in a thread, as ``python -m receiver`` does on its own.

    *env* are its settings; *more* stands in for single fields of its Receiver.
    """
    registry = CollectorRegistry()
    publisher = publisher or MemoryPublisher()
    settings = Settings.from_env({"GEMINI_WEBHOOK_SECRET": SECRET, **(env or {})})
    keys = more.pop("keys", None) or key_ring(settings)
    wired = receiver_of(settings, keys, publisher, registry, lambda: True)
    receiver = replace(wired, **more)
    server = server_of(receiver, keys, grace=grace, limits=limits)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        # Small, so that a client that reads nothing is felt soon; each connection inherits it.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        loop, end = uvloop.new_event_loop(), asyncio.Event()
        site = Site(listener.getsockname()[1], publisher, registry, server, loop, end)
        thread = threading.Thread(target=_serve, args=(site, listener), name="site")
        thread.start()
        try:
            yield site
        finally:
            site.stop()
            thread.join()


def _serve(site: Site, listener: socket.socket) -> None:
    with asyncio.Runner(loop_factory=lambda: site.loop) as runner:
        runner.run(site.server.serve(listener, site.end))
