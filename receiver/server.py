"""The composition root of ``python -m receiver``."""

import asyncio
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import structlog
import uvicorn
from prometheus_client import CollectorRegistry

from gemhooks import logs
from gemhooks.admin import AdminServer
from gemhooks.errors import Misconfigured
from gemhooks.keys import KeyRing
from gemhooks.queues.connect import connect
from gemhooks.settings import Settings
from receiver.adapter import AsgiAdapter
from receiver.app import Receiver, create_app
from receiver.connections import DEFAULT, Connections, Limits
from receiver.wiring import key_ring, receiver_of

log = structlog.get_logger()

BACKLOG = 2048
SPARE = 64  # file descriptors for all else: broker, admin server, secrets
LAST_WORD = 1.0  # seconds in which what is left is refused


class Server(uvicorn.Server):
    """uvicorn with an end of our own: nothing that was sent to us is reset."""

    def __init__(self, config: uvicorn.Config, connections: Connections, grace: float) -> None:
        super().__init__(config)
        self._connections = connections
        self._grace = grace

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take none: readiness must fall before the port closes."""
        yield

    def drain(self) -> None:
        """From now on, every answer is the last on its connection."""
        self._connections.is_draining = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.drain()
        await asyncio.sleep(0)  # one more round for those who knocked already
        for listening in (*self.servers, *(sockets or ())):
            listening.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._grace):
                await self._all_gone()
        await self._refuse_the_rest()

    async def _all_gone(self) -> None:
        state = self.server_state
        while state.connections or state.tasks:  # noqa: ASYNC110 - plain sets of uvicorn's
            await asyncio.sleep(0.02)

    async def _refuse_the_rest(self) -> None:
        tasks = list(self.server_state.tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            log.warning("requests_refused_at_the_end", requests=len(tasks))
            await asyncio.wait(tasks, timeout=LAST_WORD)


def main() -> int:
    settings = Settings.from_env()
    logs.configure(settings.log_format, settings.log_level)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(serve(settings))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if sys.platform == "win32":
        return None
    import uvloop  # noqa: PLC0415 - not on every platform

    return uvloop.new_event_loop


async def serve(settings: Settings) -> int:
    """Receive until SIGTERM or Ctrl-C; returns the exit code."""
    stop = _stop_event()
    keys = key_ring(settings)
    listener = listen(settings.host, settings.port)
    registry = CollectorRegistry()
    broker = connect(
        settings.broker_url.get_secret_value(),
        publish_timeout=settings.publish_timeout,
        loop=asyncio.get_running_loop(),
    )

    def ready() -> bool:
        return not stop.is_set() and broker.is_ready()

    admin = AdminServer(settings.admin_host, settings.admin_port, registry, lambda: True, ready)
    try:
        admin.start()
        receiver = receiver_of(settings, keys, broker.publisher, registry, ready)
        server = server_of(receiver, keys, grace=settings.grace)
        await _run(server, listener, stop, settings.drain_delay)
    finally:
        await asyncio.to_thread(broker.close)
        admin.stop()
        listener.close()
    log.info("receiver_stopped")
    return 0


def listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        reason = os.strerror(error.errno or 0)  # its own text tells the address once more
        raise Misconfigured(f"GEMHOOKS_PORT: can't listen on {host}:{port}: {reason}.") from None


def server_of(
    receiver: Receiver, keys: KeyRing, *, grace: float, limits: Limits = DEFAULT
) -> Server:
    limits = replace(limits, connections=min(limits.connections, _descriptors()))
    connections: Any = Connections(receiver.metrics, limits)
    app: Any = AsgiAdapter(
        create_app(receiver),
        receiver.metrics,
        max_body=receiver.max_body,
        max_uploads=limits.uploads,
    )

    async def look_for_keys() -> None:
        keys.refresh()  # they change and expire though nobody sends a webhook

    config = uvicorn.Config(
        app,
        callback_notify=look_for_keys,
        timeout_notify=1,  # seconds
        http=connections,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=limits.keep_alive,
    )
    logging.getLogger("uvicorn").setLevel(logging.ERROR)  # what it warns of, we log and count
    return Server(config, connections, grace)


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
    serving = asyncio.create_task(server.serve([listener]))
    log.info("receiver_started", port=listener.getsockname()[1])
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
    if stop.is_set():
        log.info("receiver_draining", seconds=drain_delay)
        server.drain()
        await asyncio.sleep(drain_delay)  # load balancers see readiness fall first
    stopping.cancel()
    server.should_exit = True
    await serving


def _stop_event() -> asyncio.Event:
    """Set by the first SIGTERM or SIGINT; the second ends the process at once."""
    stop = asyncio.Event()

    def on_signal(number: int) -> None:
        if stop.is_set():
            os._exit(128 + number)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, on_signal, number)
    return stop
