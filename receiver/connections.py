"""One connection: the deadlines, limits and refusals that uvicorn leaves to its users."""

import asyncio
from dataclasses import dataclass
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from gemhooks.metrics import ReceiverMetrics
from receiver.answers import ANSWERED, Answer, Record

MALFORMED = Answer(400, "malformed")
SLOW = Answer(408, "slow")
LARGE_HEAD = Answer(431, "too_large", "head")
FULL = Answer(503, "overloaded", "connections")


@dataclass(frozen=True, slots=True)
class Limits:
    """What clients may cost."""

    connections: int = 1000
    uploads: int = 64 << 20  # bytes of all bodies in memory at once
    head: int = 128 << 10  # bytes of a request line and its headers
    head_seconds: float = 10.0  # for them, and for the first byte after connecting
    body_seconds: float = 30.0  # for a whole body
    write_seconds: float = 10.0  # in which a client must take in its answers
    keep_alive: int = 75  # seconds; longer than a load balancer's 60: it is the one to close
    pipeline: int = 16  # requests sent ahead of their answers
    last_call: float = 1.0  # seconds in which a request that is on its way may still arrive


DEFAULT = Limits()


class Connections:
    """All that are open, at most so many: a new one takes the place of the one silent longest.

    So silent and slow clients cost each other their places, never a request that is whole.
    """

    def __init__(self, metrics: ReceiverMetrics, limits: Limits) -> None:
        self.metrics = metrics
        self.limits = limits
        self.waiting: dict[Connection, None] = {}  # for their client, the longest first
        self.is_draining = False

    def __call__(self, **uvicorns: Any) -> "Connection":
        return Connection(self, **uvicorns)

    def admit(self, newcomer: "Connection", number: int) -> None:
        if number > self.limits.connections:
            silent = next(iter(self.waiting), None)
            if silent:
                silent.give_way()
            else:
                newcomer.refuse(FULL)
                return
        self.waiting[newcomer] = None


class Connection(HttpToolsProtocol):
    """Speaks HTTP/1.1 with one client.

    It *waits* for its client, under a deadline, or it is *busy* with a request that is whole.
    """

    def __init__(self, connections: Connections, **uvicorns: Any) -> None:
        super().__init__(**uvicorns)
        self._all = connections
        self._limits = connections.limits
        self._deadline: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        self._running: RequestResponseCycle | None = None  # cycle may be one that is queued
        self._in_head = False
        self._head_size = 0

    @property
    def _is_open(self) -> bool:
        """Whether a request has begun whose answer is not complete."""
        cycle: RequestResponseCycle | None = self.cycle  # uvicorn's annotation leaves out the None
        return cycle is not None and not cycle.response_complete

    @property
    def _is_busy(self) -> bool:
        return self._is_open and not self.cycle.more_body

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._wait(self._limits.head_seconds)
        self._all.admit(self, len(self.connections))

    def connection_lost(self, exc: Exception | None) -> None:
        self._all.waiting.pop(self, None)
        self._wait_no_longer()
        self._is_read()
        if self._running:
            self._running.disconnected = True  # or it would write where nobody is
            self._running.message_event.set()
        super().connection_lost(exc)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._in_head:
            self._head_size += len(data)
            if self._head_size > self._limits.head:
                self.refuse(LARGE_HEAD)
        if self._deadline is None and not self._is_busy:
            limits = self._limits
            self._wait(limits.body_seconds if self._is_open else limits.head_seconds)

    def eof_received(self) -> bool:  # type: ignore[override]  # asyncio's own signature
        """The client sends no more; it may still wait for the answer to what it sent."""
        if self._is_busy:
            self.cycle.keep_alive = False
        return self._is_busy

    def on_message_begin(self) -> None:
        self._in_head, self._head_size = True, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._wait_no_longer()
        if len(self.pipeline) >= self._limits.pipeline:
            raise ValueError("too many requests that do not wait for an answer")  # ends in refuse()
        super().on_headers_complete()
        parser: Any = self.parser  # in uvicorn's eyes it may be gone by now
        # After an offer to speak another protocol it takes no further request.
        if self._all.is_draining or parser.should_upgrade():
            self.cycle.keep_alive = False

    def on_message_complete(self) -> None:
        if self._is_open:
            self._all.waiting.pop(self, None)
            self._wait_no_longer()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self._is_open and not self.transport.is_closing():
            self._all.waiting[self] = None

    def send_400_response(self, msg: str) -> None:
        """Uvicorn found no HTTP."""
        self.refuse(MALFORMED)

    def refuse(self, answer: Answer) -> None:
        """Answer in the application's place, and close; a whole request is answered first."""
        if self.transport.is_closing():
            return
        if self._is_busy:
            self.cycle.keep_alive = False
            self.flow.pause_reading()
            return
        if not self._has_begun_to_answer():
            Record(self._all.metrics).report(answer)
            self.transport.write(answer.encode())
        self.transport.close()

    def _has_begun_to_answer(self) -> bool:
        if not self._is_open:
            return False
        begun = self.cycle.response_started or bool(self.pipeline)
        if not begun:
            scope: Any = self.cycle.scope
            scope[ANSWERED] = True
        return begun

    def give_way(self, answer: Answer = FULL) -> None:
        """Close; with an answer if a request has begun."""
        if self._in_head or self._is_open:
            self.refuse(answer)
        else:
            self.transport.close()

    def shutdown(self) -> None:
        """Close once what was sent is answered; what is on its way must not be reset."""
        if self._is_open:
            self.cycle.keep_alive = False
        else:
            self.loop.call_later(self._limits.last_call, self._close_if_silent)

    def _close_if_silent(self) -> None:
        if not self._is_open and not self._in_head:
            self.transport.close()

    def _wait(self, seconds: float) -> None:
        if not self.transport.is_closing():
            self._deadline = self.loop.call_later(seconds, self.give_way, SLOW)

    def _wait_no_longer(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self.loop.call_later(self._limits.write_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        self._is_read()
        super().resume_writing()

    def _is_read(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
