"""From an HTTP server to the Flask application: on an event loop (ASGI), or plain WSGI."""

import asyncio
import io
import sys
import threading
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from concurrent import futures
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote_to_bytes

import structlog

from gemhooks.metrics import ReceiverMetrics
from receiver.answers import (
    ANSWERED,
    FAILED,
    GONE,
    OVERLOADED,
    PENDING,
    STOPPING,
    Answer,
    Pending,
    Record,
)

log = structlog.get_logger()

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Environ = dict[str, Any]
Headers = list[tuple[str, str]]
Found = tuple[int, Headers, bytes]
WsgiApp = Callable[[Environ, Callable[..., Any]], Iterable[bytes]]

MARGIN = 1.0  # seconds that the publisher has beyond its own time-out
LINGER = 2.0  # seconds in which a body that nobody wants may still come in
WEBHOOKS = "/webhooks/gemini"  # may not block; a request below it may wait for published keys
READY = "/readyz"  # may wait for a file's lock


class Refused(Exception):
    """A request that the application never sees."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.outcome)
        self.answer = answer


@dataclass(slots=True)
class Upload:
    """A body on its way in."""

    chunks: list[bytes] = field(default_factory=list)
    size: int = 0
    is_whole: bool = False


class AsgiAdapter:
    """Calls *app* on the loop and awaits the message that its view left behind."""

    def __init__(
        self, app: WsgiApp, metrics: ReceiverMetrics, *, max_body: int, max_uploads: int
    ) -> None:
        self._app = app
        self._metrics = metrics
        self._max_body = max_body
        self._max_uploads = max_uploads
        self._uploads = 0  # bytes
        self._patient = ThreadPoolExecutor(8, "webhooks")
        self._probes = ThreadPoolExecutor(1, "probes")  # of its own, so that it never waits long

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        upload = Upload()
        try:
            found = await self._respond(scope, receive, upload)
        finally:
            self._uploads -= upload.size
        await _send(send, found, None if upload.is_whole else receive)

    async def _respond(self, scope: Scope, receive: Receive, upload: Upload) -> Found:
        record = Record(self._metrics)
        try:
            await self._read(scope, receive, upload)
            return await self._call(scope, b"".join(upload.chunks))
        except Refused as refused:
            answer = refused.answer
        except asyncio.CancelledError:  # the grace is over: better refused than cut off
            answer = STOPPING
        except Exception:
            log.exception("adapter_failed")
            answer = FAILED
        if ANSWERED not in scope:
            record.report(answer)
        return answer.status, answer.headers(), b""

    async def _read(self, scope: Scope, receive: Receive, upload: Upload) -> None:
        """Read at most one chunk beyond the limit: the application sees that it is too much."""
        more = _declared(scope) <= self._max_body
        while more and upload.size <= self._max_body:
            event = await receive()
            if event["type"] == "http.disconnect":
                raise Refused(GONE)
            self._keep(event.get("body", b""), upload)
            more = event.get("more_body", False)
            upload.is_whole = not more

    def _keep(self, chunk: bytes, upload: Upload) -> None:
        upload.chunks.append(chunk)
        upload.size += len(chunk)
        self._uploads += len(chunk)
        if self._uploads > self._max_uploads:
            raise Refused(OVERLOADED)

    async def _call(self, scope: Scope, body: bytes) -> Found:
        environ = environ_of(scope, body)
        if pool := self._pool(scope["path"]):
            loop = asyncio.get_running_loop()
            found = await loop.run_in_executor(pool, call, self._app, environ)
        else:
            found = call(self._app, environ)
        pending = environ.get(PENDING)
        return await _confirmed(pending) if pending else found

    def _pool(self, path: str) -> ThreadPoolExecutor | None:
        if path == READY:
            return self._probes
        return self._patient if path.startswith(WEBHOOKS + "/") else None


async def _confirmed(pending: Pending) -> Found:
    if not pending.future.done():
        ended = asyncio.Event()
        pending.future.add_done_callback(_waking(ended))
        try:
            async with asyncio.timeout(pending.timeout + MARGIN):
                await ended.wait()
        except TimeoutError:
            pass  # conclude() sees that it has not ended
    answer = pending.conclude()
    return answer.status, answer.headers(), b""


def _waking(ended: asyncio.Event) -> Callable[[object], None]:
    """Sets *ended* from whatever thread; from the loop's own without a system call."""
    loop, own = asyncio.get_running_loop(), threading.get_ident()

    def wake(_: object) -> None:
        if threading.get_ident() == own:
            ended.set()
        else:
            loop.call_soon_threadsafe(ended.set)

    return wake


def call(app: WsgiApp, environ: Environ) -> Found:
    """Run a WSGI application to its end."""
    started: list[tuple[str, Headers]] = []

    def start_response(status: str, headers: Headers, _exc_info: Any = None) -> None:
        started.append((status, headers))

    parts = app(environ, start_response)
    try:
        body = b"".join(parts)
    finally:
        if close := getattr(parts, "close", None):
            close()
    status, headers = started[-1]
    return int(status.split(" ", 1)[0]), headers, body


def _declared(scope: Scope) -> int:
    value = next((value for name, value in scope["headers"] if name == b"content-length"), b"")
    return int(value) if value.isdigit() else 0


def environ_of(scope: Scope, body: bytes) -> Environ:
    """The WSGI environ of a request whose *body* was read."""
    server = scope.get("server") or ("localhost", 80)
    environ: Environ = {
        "REQUEST_METHOD": scope["method"],
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote_to_bytes(scope.get("raw_path") or scope["path"]).decode("latin-1"),
        "QUERY_STRING": scope["query_string"].decode("latin-1"),
        "SERVER_NAME": str(server[0]),
        "SERVER_PORT": str(server[1]),
        "SERVER_PROTOCOL": f"HTTP/{scope['http_version']}",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scope.get("scheme", "http"),
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": False,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }
    _add_headers(environ, scope)
    environ["CONTENT_LENGTH"] = str(max(len(body), _declared(scope)))
    return environ


def _add_headers(environ: Environ, scope: Scope) -> None:
    for raw, value in scope["headers"]:
        name = raw.decode("latin-1").upper()
        if "_" in name or name in ("CONTENT-LENGTH", "TRANSFER-ENCODING"):
            continue  # x_y would pass for x-y; the body is whole by now
        key = name.replace("-", "_")
        key = key if key == "CONTENT_TYPE" else f"HTTP_{key}"
        text = value.decode("latin-1")
        environ[key] = f"{environ[key]},{text}" if key in environ else text


async def _send(send: Send, found: Found, unread: Receive | None) -> None:
    """Answer; what is *unread* is taken in for a while, since closing on it resets the answer."""
    status, headers, body = found
    raw = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    if unread:
        await send({"type": "http.response.body", "body": body, "more_body": True})
        await _linger(unread)
        body = b""
    await send({"type": "http.response.body", "body": body})


async def _linger(receive: Receive) -> None:
    with suppress(TimeoutError, asyncio.CancelledError):
        async with asyncio.timeout(LINGER):
            while (await receive()).get("more_body"):
                pass


def wait_for_confirm(app: WsgiApp) -> WsgiApp:
    """*app* for a WSGI server with threads: each request waits for its own message."""

    def waiting(environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        status, headers, body = call(app, environ)
        if pending := environ.get(PENDING):
            futures.wait([pending.future], pending.timeout + MARGIN)
            answer = pending.conclude()
            status, headers, body = answer.status, answer.headers(), b""
        start_response(f"{status} {HTTPStatus(status).phrase}", headers)
        return [body]

    return waiting
