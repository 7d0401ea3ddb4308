"""From an HTTP server to the Flask application: on an event loop (ASGI), or plain WSGI."""

import asyncio
import io
import sys
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from concurrent import futures
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote_to_bytes

import structlog

from gemhooks.metrics import ReceiverMetrics
from receiver.answers import PENDING, Answer, Pending, Record

log = structlog.get_logger()

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Environ = dict[str, Any]
Headers = list[tuple[str, str]]
WsgiApp = Callable[[Environ, Callable[..., Any]], Iterable[bytes]]

MARGIN = 1.0  # seconds that the publisher has beyond its own time-out
READ_TIMEOUT = 30.0  # seconds for a whole body
ON_LOOP = "/webhooks/gemini"  # all else may wait: for published keys, or for a file's lock


class AsgiAdapter:
    """Calls *app* on the loop and awaits the message that its view left behind."""

    def __init__(
        self,
        app: WsgiApp,
        metrics: ReceiverMetrics,
        *,
        max_body: int,
        read_timeout: float = READ_TIMEOUT,
    ) -> None:
        self._app = app
        self._metrics = metrics
        self._max_body = max_body
        self._read_timeout = read_timeout

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        record = Record(self._metrics)
        try:
            async with asyncio.timeout(self._read_timeout):
                body = await self._read(scope, receive)
        except TimeoutError:
            answer = record.report(Answer(408, "slow"))
            await _send(send, answer.status, answer.headers(), b"")
            return
        if body is not None:
            await _send(send, *await self._answer(scope, body))

    async def _read(self, scope: Scope, receive: Receive) -> bytes | None:
        """Read at most one chunk beyond the limit; None when the client is gone."""
        if scope["method"] != "POST" or _declared(scope) > self._max_body:
            return b""
        chunks, size, more = [], 0, True
        while more and size <= self._max_body:
            event = await receive()
            if event["type"] == "http.disconnect":
                return None
            chunks.append(event.get("body", b""))
            size, more = size + len(chunks[-1]), event.get("more_body", False)
        return b"".join(chunks)

    async def _answer(self, scope: Scope, body: bytes) -> tuple[int, Headers, bytes]:
        try:
            environ = environ_of(scope, body)
            if scope["path"] == ON_LOOP:
                found = call(self._app, environ)
            else:
                found = await asyncio.to_thread(call, self._app, environ)
            pending = environ.get(PENDING)
            return await _confirmed(pending) if pending else found
        except Exception:
            log.exception("adapter_failed")
            answer = Record(self._metrics).report(Answer(503, "failed"))
            return answer.status, answer.headers(), b""


async def _confirmed(pending: Pending) -> tuple[int, Headers, bytes]:
    if not pending.future.done():
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        pending.future.add_done_callback(lambda _: loop.call_soon_threadsafe(ended.set))
        try:
            async with asyncio.timeout(pending.timeout + MARGIN):
                await ended.wait()
        except TimeoutError:
            pass  # conclude() sees that it has not ended
    answer = pending.conclude()
    return answer.status, answer.headers(), b""


def call(app: WsgiApp, environ: Environ) -> tuple[int, Headers, bytes]:
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


async def _send(send: Send, status: int, headers: Headers, body: bytes) -> None:
    raw = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": body})


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        event = (await receive())["type"]
        await send({"type": f"{event}.complete"})
        if event == "lifespan.shutdown":
            return


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
