"""The simulator as a whole: put together, served, stopped."""

import signal
import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from flask import Flask
from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server

from gemhooks import signing
from gemhooks.simulator import refusals
from gemhooks.simulator.api import create_api
from gemhooks.simulator.control import ControlRoutes
from gemhooks.simulator.deliveries import (
    Attempt,
    Deliveries,
    Patience,
    Target,
    new_secret,
)
from gemhooks.simulator.engine import Engine
from gemhooks.simulator.faults import Faults
from gemhooks.simulator.interactions import InteractionRoutes
from gemhooks.simulator.schedule import Schedule
from gemhooks.simulator.scripts import Script
from gemhooks.simulator.state import Interaction, State
from gemhooks.simulator.webhooks import WebhookRoutes

NO_FAULTS = Faults()
STOPS_WITHIN = 0.02  # seconds


class Simulator:
    """A Gemini of one's own: `with Simulator() as gemini:` and a client with `gemini.url`.

    *secret* signs what goes to the `uris` of a `webhook_config`; a registered webhook has its own.
    """

    def __init__(
        self,
        port: int = 0,
        host: str = "127.0.0.1",
        secret: str | None = None,
        *,
        delay: float = 0.05,
        retry_base: float = 0.5,
        max_attempts: int = 10,
        timeout: float = 5.0,
        scripts: Sequence[Script] = (),
        faults: Faults = NO_FAULTS,
    ) -> None:
        self.secret = secret or new_secret()
        signing.decode_secret(self.secret)  # now, and not when the first event is due
        self._state = State(scripts, faults)
        self._schedule = Schedule()
        patience = Patience(retry_base, max_attempts, timeout)
        self._deliveries = Deliveries(
            self._schedule, lambda: self._state.dice, self._secrets_of, patience
        )
        self._server = _bind(
            host, port, _create_app(self._state, self._deliveries, self._engine(delay))
        )
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": STOPS_WITHIN}, daemon=True
        )

    @property
    def url(self) -> str:
        return f"http://{self._server.host}:{self._server.port}"

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        return self._deliveries.attempts

    @property
    def interactions(self) -> tuple[Interaction, ...]:
        return self._state.interactions

    @property
    def faults(self) -> Faults:
        return self._state.faults

    @faults.setter
    def faults(self, faults: Faults) -> None:
        self._state.faults = faults

    def wait_for(self, enough: Callable[[Sequence[Attempt]], bool], timeout: float = 10) -> bool:
        """Whether the attempts were *enough* before *timeout* seconds passed."""
        return self._deliveries.wait(enough, timeout)

    def start(self) -> None:
        self._schedule.start()
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self._schedule.stop()
        self._deliveries.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _engine(self, delay: float) -> Engine:
        return Engine(self._state, self._schedule, self._deliveries, delay)

    def _secrets_of(self, target: Target) -> list[bytes]:
        if target.webhook_id is None:
            return [signing.decode_secret(self.secret)]
        found = [hook for hook in self._state.webhooks if hook.id == target.webhook_id]
        return [
            signing.decode_secret(key.text) for hook in found for key in hook.secrets if key.alive
        ]


def serve(
    port: int,
    host: str = "127.0.0.1",
    secret: str | None = None,
    *,
    announce: Callable[[Simulator], None] = lambda _: None,
    scripts: Sequence[Script] = (),
    faults: Faults = NO_FAULTS,
) -> None:
    """Serve until SIGTERM or SIGINT; *announce* is called once it answers."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with Simulator(port, host, secret, scripts=scripts, faults=faults) as simulator:
        announce(simulator)
        stop.wait()


class _Quiet(WSGIRequestHandler):
    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Say nothing: /control/deliveries tells what happened."""


def _bind(host: str, port: int, app: Flask) -> BaseWSGIServer:
    # Werkzeug's server is not for production, and neither is a simulator: it comes with Flask,
    # starts in a thread, and can be stopped again.
    return make_server(host, port, app, threaded=True, request_handler=_Quiet)


def _create_app(state: State, deliveries: Deliveries, engine: Engine) -> Flask:
    app = Flask(__name__)
    refusals.install(app)
    api = create_api(state, WebhookRoutes(state, deliveries), InteractionRoutes(state, engine))
    for version in ("v1", "v1beta"):
        app.register_blueprint(api, url_prefix=f"/{version}", name=version)
    app.register_blueprint(ControlRoutes(state, deliveries).blueprint())
    return app
