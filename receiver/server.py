"""The composition root of ``python -m receiver``."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import structlog
import uvicorn
from prometheus_client import CollectorRegistry

from gemhooks import logs
from gemhooks.admin import AdminServer
from gemhooks.errors import Misconfigured
from gemhooks.keys import JwksCache, KeyRing, SigningSecrets
from gemhooks.messages import Broker
from gemhooks.metrics import ReceiverMetrics
from gemhooks.queues.connect import connect
from gemhooks.settings import Settings
from gemhooks.signing import Scheme
from receiver.adapter import AsgiAdapter
from receiver.app import Receiver, create_app

log = structlog.get_logger()

BACKLOG = 2048
MAX_CONNECTIONS = 1000
KEEP_ALIVE = 75  # seconds; longer than a load balancer's 60, so that it is the one to close


class Server(uvicorn.Server):
    """uvicorn without its signal handlers: readiness must fall before the port closes."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


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
        receiver = receiver_of(settings, keys, broker, registry, ready)
        await _run(Server(config(receiver, settings)), listener, stop, settings.drain_delay)
    finally:
        await asyncio.to_thread(broker.close)
        admin.stop()
        listener.close()
    log.info("receiver_stopped")
    return 0


def receiver_of(
    settings: Settings,
    keys: KeyRing,
    broker: Broker,
    registry: CollectorRegistry,
    ready: Callable[[], bool],
) -> Receiver:
    return Receiver(
        keys=keys,
        publisher=broker.publisher,
        metrics=ReceiverMetrics(registry),
        ready=ready,
        schemes=schemes_of(settings),
        path_tokens=tuple(settings.path_tokens.get_secret_value().replace(",", " ").split()),
        tolerance=settings.tolerance,
        max_body=settings.max_body,
        publish_timeout=settings.publish_timeout,
    )


def schemes_of(settings: Settings) -> frozenset[Scheme]:
    try:
        return frozenset(Scheme(each) for each in settings.schemes)
    except ValueError:
        raise Misconfigured("GEMHOOKS_SCHEMES may name v1, v1a and jwt only.") from None


def key_ring(settings: Settings) -> KeyRing:
    schemes = schemes_of(settings)
    text = settings.webhook_secret.get_secret_value()
    secrets = SigningSecrets(text) if Scheme.V1 in schemes else None
    jwks = JwksCache() if schemes - {Scheme.V1} else None
    if jwks:
        jwks.refresh()
    return KeyRing(secrets, jwks=jwks)


def listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise Misconfigured(
            f"GEMHOOKS_PORT: can't listen on {host}:{port}: {error.strerror}."
        ) from None


def config(receiver: Receiver, settings: Settings) -> uvicorn.Config:
    app: Any = AsgiAdapter(create_app(receiver), receiver.metrics, max_body=receiver.max_body)
    return uvicorn.Config(
        app,
        http="httptools",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=max(1, round(settings.grace)),
    )


async def _run(
    server: Server, listener: socket.socket, stop: asyncio.Event, drain_delay: float
) -> None:
    serving = asyncio.create_task(server.serve([listener]))
    log.info("receiver_started", port=listener.getsockname()[1])
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
    if stop.is_set():
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
