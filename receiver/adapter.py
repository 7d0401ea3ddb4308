"""From a request to the Flask application and back: on an event loop, or as plain WSGI."""

import asyncio
import threading
from collections.abc import Callable, Iterable
from concurrent import futures
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http import HTTPStatus
from time import monotonic
from typing import Any, Protocol

import structlog

from gemhooks.metrics import ReceiverMetrics
from receiver.answers import AT_ONCE, FAILED, PENDING, STOPPING, Answer, Headers, Pending, Record
from receiver.requests import Environ, Incoming

log = structlog.get_logger()

Found = tuple[int, Headers, bytes]
WsgiApp = Callable[[Environ, Callable[..., Any]], Iterable[bytes]]

MARGIN = 1.0  # seconds that the publisher has beyond its own time-out
READY = "/readyz"  # may wait for a file's lock


class Client(Protocol):
    """Who waits for the answer to a request."""

    def answer(self, request: Incoming, found: Answer | Found) -> None:
        """Send it, if somebody is still there."""
        ...


class Adapter:
    """Calls *app* on the loop; who asked is answered once the view's message is confirmed."""

    def __init__(self, app: WsgiApp, metrics: ReceiverMetrics) -> None:
        self._app = app
        self._metrics = metrics
        self._patient = ThreadPoolExecutor(8, "webhooks")
        self._probes = ThreadPoolExecutor(1, "probes")  # of its own, so that it never waits long
        self._clients: dict[Incoming, Client] = {}  # of what is not answered yet
        self._pending: dict[Incoming, tuple[Pending, float]] = {}  # the nearest deadline first

    def __len__(self) -> int:
        """How many requests are not answered yet."""
        return len(self._clients)

    def start(self, request: Incoming, client: Client) -> None:
        """Let the application answer *request*, now or later."""
        self._clients[request] = client
        if request.refusal:
            self._refuse(request, request.refusal)
        elif request.environ["PATH_INFO"] == READY:
            self._run_on(self._probes, request)
        else:
            self._try(request)

    def _try(self, request: Incoming) -> None:
        """Here, on the loop; what would have to wait for published keys goes to a thread."""
        request.environ[AT_ONCE] = True
        found = self._run(request)
        if request.environ.pop(AT_ONCE):
            self._ran(request, found)
        else:
            self._run_on(self._patient, request)

    def _run_on(self, pool: ThreadPoolExecutor, request: Incoming) -> None:
        task = asyncio.get_running_loop().run_in_executor(pool, self._run, request)
        task.add_done_callback(lambda done: self._ran(request, done.result()))

    def _run(self, request: Incoming) -> Found | None:
        try:
            return call(self._app, request.close())
        except Exception:
            log.exception("adapter_failed")
            return None

    def _ran(self, request: Incoming, found: Found | None) -> None:
        pending = request.environ.pop(PENDING, None)  # else they would hold each other
        if request not in self._clients:
            return  # it was refused meanwhile
        if found is None:
            self._refuse(request, FAILED)
        elif pending is None:
            self._answer(request, found)
        else:
            self._await(request, pending)

    def _await(self, request: Incoming, pending: Pending) -> None:
        loop = asyncio.get_running_loop()
        self._pending[request] = pending, monotonic() + pending.timeout + MARGIN
        if pending.future.done():
            self._conclude(request)
        else:
            wake = partial(self._wake, request, loop, threading.get_ident())
            pending.future.add_done_callback(wake)

    def _wake(
        self, request: Incoming, loop: asyncio.AbstractEventLoop, own: int, _: object
    ) -> None:
        """Conclude on whatever thread it ended; on the loop's own without a system call."""
        if threading.get_ident() == own:
            self._conclude(request)
        else:
            loop.call_soon_threadsafe(self._conclude, request)

    def _conclude(self, request: Incoming) -> None:
        pending, _ = self._pending.pop(request, (None, 0))
        if pending:
            self._answer(request, pending.conclude())

    def _answer(self, request: Incoming, found: Answer | Found) -> None:
        client = self._clients.pop(request, None)
        if client:
            client.answer(request, found)

    def _refuse(self, request: Incoming, answer: Answer) -> None:
        self._answer(request, Record(self._metrics).report(answer))

    def look(self) -> None:
        """Give up what the publisher has forgotten."""
        now = monotonic()
        late = [request for request, (_, due) in self._pending.items() if due <= now]
        for request in late:
            self._conclude(request)

    def stop(self) -> None:
        """Refuse what is not answered yet."""
        for request in list(self._clients):
            pending, _ = self._pending.pop(request, (None, 0))
            record = pending.record if pending else Record(self._metrics)
            self._answer(request, record.report(STOPPING))


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
