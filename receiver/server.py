"""The composition root of ``python -m receiver``."""

import asyncio
import gc
import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import structlog
from flask import Flask
from prometheus_client import CollectorRegistry

from gemhooks import lines, logs
from gemhooks.admin import AdminServer
from gemhooks.errors import Misconfigured
from gemhooks.keys import KeyRing
from gemhooks.pulse import Pulse
from gemhooks.queues.connect import connect_as
from gemhooks.settings import Settings
from gemhooks.tracing import tracing
from receiver.adapter import Adapter
from receiver.app import Receiver, create_app
from receiver.connections import DEFAULT, Connections, Limits
from receiver.turning_away import turn_away
from receiver.wiring import key_ring, receiver_of

log = structlog.get_logger()

BACKLOG = 2048
SPARE = 64  # file descriptors for all else: broker, admin server, secrets
TICK = 0.5  # seconds between two looks at deadlines and keys
HANDSHAKE = 0.1  # seconds in which those who knocked already are let in
LAST_WORD = 1.0  # seconds in which what is left is refused


class Server:
    """Accepts connections, and ends so that nothing that was sent to us is reset."""

    def __init__(self, app: Flask, connections: Connections, keys: KeyRing, grace: float) -> None:
        self._app = app
        self.connections = connections
        self._keys = keys
        self._grace = grace

    async def serve(self, listener: socket.socket, stop: asyncio.Event) -> None:
        """Serve until *stop* is set, then to the end of what had been sent by then."""
        listening = await self._listen(listener)
        ticking = asyncio.create_task(self._tick())
        await stop.wait()
        self.connections.drain()
        turn_away(listener)
        await asyncio.sleep(HANDSHAKE)
        listening.close()
        await self._end()
        ticking.cancel()

    async def _listen(self, listener: socket.socket) -> asyncio.Server:
        # What runs on the loop shares one context of the application, which holds nothing of a
        # request: one for each was a twentieth of the work.
        with self._app.app_context():
            loop = asyncio.get_running_loop()
            return await loop.create_server(self.connections, sock=listener, backlog=BACKLOG)

    async def _tick(self) -> None:
        while True:
            try:
                self.connections.look()
                self._keys.refresh()  # they change and expire though nobody sends a webhook
            except Exception:
                log.exception("receiver_tick_failed")
            await asyncio.sleep(TICK)

    async def _end(self) -> None:
        self.connections.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._grace):
                await self._all_gone()
        self.connections.stop()
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORD):
                await self._all_gone()

    async def _all_gone(self) -> None:
        while self.connections.open or self.connections.adapter:  # noqa: ASYNC110 - seldom, and short
            await asyncio.sleep(0.02)


def main() -> int:
    settings = Settings.from_env()
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(serve(settings))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if sys.platform == "win32":
        return None
    import uvloop  # noqa: PLC0415 - not on every platform

    return uvloop.new_event_loop


async def serve(settings: Settings) -> int:
    """Receive until SIGTERM or Ctrl-C; returns the exit code."""
    logs.configure(settings.log_format, settings.log_level, gathered=lines.on_loop)
    stop = _stop_event()
    keys = key_ring(settings)
    listener = listen(settings.host, settings.port)
    registry = CollectorRegistry()
    traced = tracing(wanted=settings.tracing)
    broker = connect_as(settings, loop=asyncio.get_running_loop())
    pulse = Pulse()

    def ready() -> bool:
        return not stop.is_set() and pulse.is_quick() and broker.is_ready()

    admin = AdminServer(settings.admin_host, settings.admin_port, registry, pulse.is_felt, ready)
    beating = asyncio.create_task(pulse.keep())
    try:
        admin.start()
        publisher = traced.publishing(broker.publisher)
        receiver = receiver_of(settings, keys, publisher, registry, ready)
        server = server_of(receiver, keys, grace=settings.grace)
        await _run(server, listener, stop, settings.drain_delay)
    finally:
        await asyncio.to_thread(broker.close)
        await asyncio.to_thread(traced.close)
        admin.stop()
        beating.cancel()
        listener.close()
    log.info("receiver_stopped")
    return 0


def listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    both = host == "::" and socket.has_dualstack_ipv6()
    try:
        socket.getaddrinfo(host, port, family)  # what comes next hides its kind of error
        return socket.create_server(
            (host, port), family=family, backlog=BACKLOG, dualstack_ipv6=both
        )
    except socket.gaierror as error:
        raise Misconfigured(f"GEMHOOKS_HOST: {host} is no address: {error.strerror}.") from None
    except OSError as error:
        reason = os.strerror(error.errno or 0)  # its own text tells the address once more
        raise Misconfigured(f"GEMHOOKS_PORT: can't listen on {host}:{port}: {reason}.") from None


def server_of(
    receiver: Receiver, keys: KeyRing, *, grace: float, limits: Limits = DEFAULT
) -> Server:
    limits = replace(limits, connections=min(limits.connections, _descriptors()))
    app = create_app(receiver)
    adapter = Adapter(app, receiver.metrics)
    connections = Connections(adapter, receiver.metrics, max_body=receiver.max_body, limits=limits)
    return Server(app, connections, keys, grace)


def _descriptors() -> int:
    """How many connections the limit on open files leaves us."""
    if sys.platform == "win32":
        return 8192
    import resource  # noqa: PLC0415 - not on every platform

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else max(1, soft - SPARE)


async def _run(
    server: Server, listener: socket.socket, stop: asyncio.Event, drain_delay: float
) -> None:
    # What is there now stays for good: without this, collecting garbage is a third of the work.
    gc.collect()
    gc.freeze()
    gc.set_threshold(5_000, 20, 50)  # a request leaves no circles behind
    end = asyncio.Event()
    serving = asyncio.create_task(server.serve(listener, end))
    log.info("receiver_started", port=listener.getsockname()[1])
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
    if stop.is_set():
        log.info("receiver_draining", seconds=drain_delay)
        server.connections.drain()
        await asyncio.sleep(drain_delay)  # load balancers see readiness fall first
    stopping.cancel()
    end.set()
    await serving


def _stop_event() -> asyncio.Event:
    """Set by the first SIGTERM or SIGINT; the second ends the process at once."""
    stop = asyncio.Event()

    def on_signal(number: int) -> None:
        if stop.is_set():
            logs.flush()
            os._exit(128 + number)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, on_signal, number)
    return stop
