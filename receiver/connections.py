"""HTTP/1.1 with many clients at once, and what each of them may cost."""

import asyncio
import math
import re
from collections import deque
from dataclasses import dataclass
from email.utils import formatdate
from time import monotonic
from typing import Any

import httptools
import structlog

from gemhooks.metrics import ReceiverMetrics
from receiver.adapter import Adapter, Found
from receiver.answers import GONE, OVERLOADED, STOPPING, Answer, Record, encode
from receiver.requests import (
    TRANSFER_ENCODING,
    Environ,
    Incoming,
    add_header,
    environ_for,
    head_without_offer,
    path_of,
)

log = structlog.get_logger()

MALFORMED = Answer(400, "malformed")
NO_METHOD = Answer(405, "method_not_allowed", allow="POST")
SLOW = Answer(408, "slow")
ENCODED = Answer(415, "encoded", "transfer")
LARGE_HEAD = Answer(431, "too_large", "head")
FULL = Answer(503, "overloaded", "connections")
REQUEST_LINE = re.compile(rb"[\w-]+ /\S* HTTP/1\.[01]\r?\n")
CHUNKED = "chunked"  # the one coding that the parser takes away; what is left of others is encoded
GO_ON = b"HTTP/1.1 100 Continue\r\n\r\n"
LINGER = 2.0  # seconds in which a body that nobody wants may still come in
HEADER = 256  # bytes that a header costs beside its text: many short ones must not be cheap


@dataclass(frozen=True, slots=True)
class Limits:
    """What clients may cost; who is late is noticed half a second later."""

    connections: int = 1000
    uploads: int = 64 << 20  # bytes of all bodies in memory at once
    head: int = 128 << 10  # bytes of a request line, its headers and trailers, see HEADER
    head_seconds: float = 10.0  # for them, and for the first byte after connecting
    body_seconds: float = 30.0  # for a whole body
    write_seconds: float = 10.0  # in which a client must take in its answers
    keep_alive: float = 75.0  # seconds; longer than a load balancer's 60: it is the one to close
    pipeline: int = 16  # requests sent ahead of their answers
    last_call: float = 1.0  # seconds in which a request that is on its way may still arrive


DEFAULT = Limits()


class Connections:
    """All that are open, at most so many: a new one takes the place of the one silent longest.

    So silent and slow clients cost each other their places, never a request that is whole.
    """

    def __init__(
        self,
        adapter: Adapter,
        metrics: ReceiverMetrics,
        *,
        max_body: int,
        limits: Limits = DEFAULT,
    ) -> None:
        self.adapter = adapter
        self.metrics = metrics
        self.max_body = max_body
        self.limits = limits
        self.open: set[Connection] = set()
        self.waiting: dict[Connection, None] = {}  # for their client, the longest first
        self.uploads = 0  # bytes
        self.is_draining = False
        self._heads: dict[tuple[int, str, bool], bytes] = {}
        self._tell_the_time()

    def __call__(self) -> "Connection":
        return Connection(self)

    def look(self) -> None:
        """See who is late; to be called twice a second."""
        self._tell_the_time()
        self.adapter.look()
        for connection in list(self.open):
            connection.look()

    def _tell_the_time(self) -> None:
        """As answers tell it; making it for each costs more than the rest of its head."""
        self._date = formatdate(usegmt=True)
        self._heads.clear()

    def admit(self, newcomer: "Connection") -> None:
        if len(self.open) > self.limits.connections:
            silent = next(iter(self.waiting), None)
            if silent:
                silent.give_way()
            else:
                newcomer.refuse(FULL)
                return
        self.waiting[newcomer] = None

    def make_room(self) -> None:
        """Let the largest bodies on their way go until the others fit: a slow one costs itself."""
        while self.uploads > self.limits.uploads:
            largest = max(self.open, key=Connection.uploaded)
            if not largest.uploaded():
                return  # all that is left is whole
            largest.cut_short()

    def encode(self, found: Answer | Found, *, is_last: bool) -> bytes:
        if isinstance(found, Answer):
            return self._head_of(found, is_last=is_last)
        status, headers, body = found
        return encode(status, headers, self._date, is_last=is_last) + body

    def _head_of(self, answer: Answer, *, is_last: bool) -> bytes:
        kind = answer.status, answer.allow, is_last
        head = self._heads.get(kind)
        if head is None:
            head = encode(answer.status, answer.headers(), self._date, is_last=is_last)
            self._heads[kind] = head
        return head

    def drain(self) -> None:
        """From now on, every answer is the last on its connection."""
        self.is_draining = True

    def close(self) -> None:
        """Each once what was sent on it is answered."""
        for connection in list(self.open):
            connection.close_soon()

    def stop(self) -> None:
        """Refuse what is left: better than to be cut off."""
        if self.adapter:
            log.warning("requests_refused_at_the_end", requests=len(self.adapter))
        while self.adapter:  # the next in line is begun when the one before it is answered
            self.adapter.stop()
        for connection in list(self.open):
            connection.give_way(STOPPING)


class Connection(asyncio.Protocol):
    """Speaks HTTP/1.1 with one client.

    It waits for its client, under a deadline, or it is busy with requests that are whole.
    """

    def __init__(self, connections: Connections) -> None:
        self._all = connections
        self._limits = connections.limits
        self._parser = httptools.HttpRequestParser(self)
        self._transport: Any = None
        self._same: Environ = {}
        self._environ: Environ | None = None  # of a head that is on its way
        self._url = b""
        self._head_size = 0
        self._stray = 0  # bytes read since the last part of a message that was whole
        self._offered = b""  # a head that offers another protocol, without its offer
        self._incoming: Incoming | None = None  # whose body is on its way
        self._todo: deque[Incoming] = deque()  # the first is being answered
        self._unwanted: Incoming | None = None  # the rest of its body is thrown away
        self._leaves_unread = False  # what comes now is thrown away
        self._is_last = False  # no more requests are taken
        self._is_ended = False  # and the last one is answered
        self._is_paused = False  # we do not read
        self._is_full = False  # the client does not
        self._due = self._unread = math.inf

    # -- what the transport tells

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._same = environ_for(transport.get_extra_info("sockname"))
        self._due = monotonic() + self._limits.head_seconds
        self._all.open.add(self)
        self._all.admit(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._all.open.discard(self)
        self._all.waiting.pop(self, None)
        if self._incoming:
            Record(self._all.metrics).report(GONE)
            self._forget(self._incoming)
        for request in self._todo:
            if not request.is_started:
                Record(self._all.metrics).report(GONE)
            self._forget(request)
        self._todo.clear()
        self._is_last, self._incoming = True, None

    def data_received(self, data: bytes) -> None:
        if self._is_last and not self._unwanted:
            return
        self._stray += len(data)
        while data:
            data = self._parsed(data)
        if self._head_size + self._stray > self._limits.head:
            self.refuse(LARGE_HEAD)
        self._advance()

    def _parsed(self, data: bytes) -> bytes:
        """Parse *data*; what is to be parsed after it, where a client offers another protocol.

        Java's client does so by default. The parser takes the rest for that protocol, so another
        parser gets the same head without the offer, which anybody may pass over.
        """
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as offer:
            head, self._offered = self._offered, b""
            self._parser = httptools.HttpRequestParser(self)
            return head and head + data[offer.args[0] :]
        except httptools.HttpParserError as error:
            self.refuse(_refusal_of(data, error))
        return b""

    def eof_received(self) -> bool:
        """The client sends no more; it may still wait for the answer to what it sent."""
        self._is_last, self._leaves_unread = True, False
        return bool(self._todo)

    def pause_writing(self) -> None:
        self._is_full = True
        self._unread = monotonic() + self._limits.write_seconds

    def resume_writing(self) -> None:
        self._is_full = False
        self._unread = math.inf
        self._advance()

    # -- what the parser finds

    def on_message_begin(self) -> None:
        self._environ = self._same.copy()
        self._url, self._head_size, self._stray = b"", 0, 0
        self._due = min(self._due, monotonic() + self._limits.head_seconds)

    def on_url(self, url: bytes) -> None:
        self._url += url
        self._measure(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._measure(len(name) + len(value) + HEADER)
        if self._environ is not None and self._head_size <= self._limits.head:
            add_header(self._environ, name, value)  # a trailer's are nobody's

    def _measure(self, size: int) -> None:
        self._head_size += size
        self._stray = 0

    def on_headers_complete(self) -> None:
        environ, self._environ = self._environ or {}, None
        if self._is_last:
            return
        if self._head_size > self._limits.head:
            self.refuse(LARGE_HEAD)
            return
        if len(self._todo) >= self._limits.pipeline:
            raise ValueError("too many requests that do not wait for an answer")  # ends in refuse()
        method = self._parser.get_method()
        if self._parser.should_upgrade():
            version = self._parser.get_http_version()
            self._offered = head_without_offer(method, self._url, version, environ)
            return
        environ["REQUEST_METHOD"] = method.decode("latin-1")
        environ["PATH_INFO"], environ["QUERY_STRING"] = path_of(self._url)
        self._due = monotonic() + self._limits.body_seconds
        self._incoming = request = self._request(environ)
        if request.refusal or request.declared > self._all.max_body:
            self._take(request)

    def _request(self, environ: Environ) -> Incoming:
        parser, length = self._parser, environ.get("CONTENT_LENGTH", "")
        codings = environ.pop(TRANSFER_ENCODING, CHUNKED)  # Werkzeug would look for chunks
        is_old = parser.get_http_version() == "1.0"
        if is_old:
            environ["SERVER_PROTOCOL"] = "HTTP/1.0"
        return Incoming(
            environ,
            is_last=is_old or not parser.should_keep_alive(),
            expects=not is_old and environ.get("HTTP_EXPECT", "").lower() == "100-continue",
            declared=int(length) if length.isdecimal() else 0,
            refusal=None if codings.lower() == CHUNKED else ENCODED,
        )

    def on_body(self, data: bytes) -> None:
        self._stray = 0
        request = self._incoming
        if request is None:
            return
        request.chunks.append(data)
        request.size += len(data)
        self._all.uploads += len(data)
        if request.size > self._all.max_body:
            self._take(request)
        elif self._all.uploads > self._limits.uploads:
            self._all.make_room()

    def on_message_complete(self) -> None:
        request = self._incoming
        if request is not None:
            request.is_whole = True
            self._take(request)
        elif self._unwanted:
            self._leaves_unread = False
            if not self._todo:  # it is answered
                self._close()

    def uploaded(self) -> int:
        """Bytes of a body that is still on its way."""
        return self._incoming.size if self._incoming else 0

    def cut_short(self) -> None:
        """Refuse the body on its way, for the sake of others, and forget it at once."""
        if request := self._incoming:
            self._forget(request)
            request.chunks.clear()
            request.size, request.refusal = 0, OVERLOADED
            self._take(request)
            self._advance()

    def _take(self, request: Incoming) -> None:
        """No more of it is needed."""
        self._incoming = None
        if not request.is_whole:
            self._unwanted = request
            self._is_last = self._leaves_unread = True
        self._todo.append(request)
        self._all.waiting.pop(self, None)
        if len(self._todo) > 1:
            self._pause()

    # -- answers, one after another

    def _advance(self) -> None:
        if self._todo:
            request = self._todo[0]
            if not request.is_started and not self._is_full:
                request.is_started = True
                self._all.adapter.start(request, self)
        elif self._incoming and not self._is_last:
            self._go_on(self._incoming)

    def _go_on(self, request: Incoming) -> None:
        if request.expects and not request.size:
            request.expects = False
            self._transport.write(GO_ON)

    def answer(self, request: Incoming, found: Answer | Found) -> None:
        """Answer the first of those that wait; nobody may be left to read it."""
        if not self._todo:
            return
        self._forget(self._todo.popleft())
        is_closing = self._is_last or self._all.is_draining
        is_last = request.is_last or request is self._unwanted or (is_closing and not self._todo)
        self._transport.write(self._all.encode(found, is_last=is_last))
        if is_last:
            self._end()
        elif self._todo:
            self._advance()
        else:
            self._wait()

    def _forget(self, request: Incoming) -> None:
        self._all.uploads -= request.size

    def _end(self) -> None:
        """Close; but what is unread is taken in for a while, else closing resets the answer."""
        self._is_last = self._is_ended = True
        while self._todo:
            self._forget(self._todo.popleft())
        if self._leaves_unread:
            self._due = monotonic() + LINGER
            self._all.waiting[self] = None
            self._transport.write_eof()
            self._resume()
        else:
            self._close()

    def _wait(self) -> None:
        """For the next request."""
        self._all.waiting[self] = None
        if self._environ is None and self._incoming is None:
            self._due = monotonic() + self._limits.keep_alive
        self._resume()
        self._advance()

    def _pause(self) -> None:
        self._is_paused = True
        self._transport.pause_reading()

    def _resume(self) -> None:
        if self._is_paused:
            self._is_paused = False
            self._transport.resume_reading()

    # -- the end

    def look(self) -> None:
        """See whether the client is late."""
        is_left = self._transport.is_closing() and self._due <= monotonic()
        if is_left or self._unread <= monotonic():
            self._transport.abort()
        elif not self._todo and self._due <= monotonic():
            self.give_way(SLOW)

    def refuse(self, answer: Answer) -> None:
        """Answer in the application's place, and close; what is whole is answered first."""
        if self._transport.is_closing():
            return
        self._is_last = True
        if self._todo:
            self._unwanted, self._leaves_unread = None, True
            self._resume()
            return
        if not self._is_ended:
            Record(self._all.metrics).report(answer)
            self._transport.write(self._all.encode(answer, is_last=True))
        self._drop()

    def give_way(self, answer: Answer = FULL) -> None:
        """Close; with an answer if a request has begun."""
        self._all.waiting.pop(self, None)
        if self._environ is not None or self._incoming or self._todo:
            self.refuse(answer)
        else:
            self._drop()

    def _drop(self) -> None:
        if self._incoming:
            self._forget(self._incoming)
        self._incoming = self._environ = None
        self._all.waiting.pop(self, None)
        self._close()

    def _close(self) -> None:
        """Once the client has taken in what it was answered, or has had the time to."""
        self._due = monotonic() + self._limits.write_seconds
        self._transport.close()

    def close_soon(self) -> None:
        """Close once what was sent is answered; what is on its way must not be reset."""
        if not self._todo and self._environ is None and self._incoming is None:
            self._due = min(self._due, monotonic() + self._limits.last_call)


def _refusal_of(data: bytes, error: httptools.HttpParserError) -> Answer:
    """The parser knows the registered methods only; another is no worse than those."""
    is_method = isinstance(error, httptools.HttpParserInvalidMethodError)
    return NO_METHOD if is_method and REQUEST_LINE.match(data) else MALFORMED
