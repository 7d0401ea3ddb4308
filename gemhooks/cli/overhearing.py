"""The simulator's events, through a webhook of our own that is deleted at the end."""

import queue
import threading
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from gemhooks import heads, signing
from gemhooks.errors import GemhooksError, InvalidSignature, Misconfigured
from gemhooks.gemini import Gemini
from gemhooks.messages import Message
from gemhooks.webhooks.wishes import SUBSCRIBABLE

MOST = 10_000  # messages that wait to be shown; then the simulator is told to try later
LARGEST = 1 << 20  # bytes


class _OneSecret:
    """The keys of :func:`signing.verify` where there is one secret and nothing published."""

    def __init__(self, key: bytes) -> None:
        self.secrets = (signing.Secret(key, signing.fingerprint(key)),)

    def ed25519_keys(self) -> tuple[signing.Ed25519Key, ...]:
        return ()

    def rsa_keys(self, kid: str | None) -> tuple[signing.RsaKey, ...]:
        return ()


class Ear(ThreadingHTTPServer):
    """Takes webhooks on a free port of this machine and keeps what verifies."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.keys = _OneSecret(b"not known yet")
        self.heard: queue.Queue[Message] = queue.Queue(MOST)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/"

    def take(self, headers: dict[str, str], body: bytes) -> int:
        try:
            webhook = signing.verify(headers, body, self.keys, now=time.time())
            head = heads.head_of(body)
            self.heard.put_nowait(
                Message(
                    webhook.id, head.type, body, webhook.timestamp, head.time, scheme=webhook.scheme
                )
            )
        except InvalidSignature:
            return 401
        except queue.Full:
            return 503
        return 204


class _Handler(BaseHTTPRequestHandler):
    server: Ear  # pyright: ignore[reportIncompatibleVariableOverride] - always ours

    def do_POST(self) -> None:
        length = min(int(self.headers.get("content-length") or 0), LARGEST)
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.send_response(self.server.take(headers, self.rfile.read(length)))
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's
        """Say nothing: what was heard is shown."""


def listen(simulator: str, on_ready: Callable[[], None]) -> Generator[Message]:
    """What the simulator at that URL sends to all its webhooks, until the generator is closed."""
    webhooks = Gemini("simulated", base_url=simulator).webhooks
    with Ear() as ear:
        made = webhooks.create(uri=ear.url, events=SUBSCRIBABLE, name="gemhooks listen")
        if made.new_signing_secret is None:
            raise Misconfigured(f"{simulator} made a webhook and told no secret.")
        ear.keys = _OneSecret(signing.decode_secret(made.new_signing_secret.get_secret_value()))
        threading.Thread(target=ear.serve_forever, daemon=True).start()
        on_ready()
        try:
            while True:
                yield ear.heard.get()
        finally:
            ear.shutdown()
            with suppress(GemhooksError):  # the simulator may be gone
                webhooks.delete(made.id)
