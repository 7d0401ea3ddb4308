"""The simulator as a whole: put together, served, stopped."""

import signal
import socket
import threading
from collections.abc import Callable, Sequence
from functools import partial
from types import TracebackType
from typing import Self, Unpack

from flask import Flask
from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server

from gemhooks import signing
from gemhooks.simulator import refusals
from gemhooks.simulator.announcer import Announcer
from gemhooks.simulator.api import create_api, create_downloads, create_uploads
from gemhooks.simulator.batch import Batch
from gemhooks.simulator.batch_jobs import BatchJobs
from gemhooks.simulator.batches import BatchRoutes
from gemhooks.simulator.control import ControlRoutes
from gemhooks.simulator.deliveries import Attempt, Deliveries
from gemhooks.simulator.engine import Engine
from gemhooks.simulator.faults import Faults
from gemhooks.simulator.file_routes import FileRoutes
from gemhooks.simulator.interactions import InteractionRoutes
from gemhooks.simulator.key_ring import KeyRing
from gemhooks.simulator.misbehaviour import Misbehaviour
from gemhooks.simulator.plans import Plans
from gemhooks.simulator.scenario import Parts, Registered, Scenario
from gemhooks.simulator.schedule import Schedule
from gemhooks.simulator.scripts import Script
from gemhooks.simulator.signatures import Signer, Target, new_secret
from gemhooks.simulator.state import Interaction, SigningSecret, State, Webhook
from gemhooks.simulator.variants import Variants
from gemhooks.simulator.videos import VideoJobs, VideoRoutes
from gemhooks.simulator.webhooks import WebhookRoutes, created

EMPTY = Scenario()
STOPS_WITHIN = 0.02  # seconds
# Python counts how deep it is in a syntax tree for all threads at once (CPython issue 106905), and
# Werkzeug builds such trees for its routes: two at the same time could end in a SystemError.
_CREATING = threading.Lock()
LARGEST_REQUEST = 64 << 20  # bytes; uploads of files may be larger


class Simulator:
    """A Gemini of one's own: `with Simulator() as gemini:` and a client with `gemini.url`.

    *secret* signs what is for no registered webhook and yet signed with ``v1``. Any field of a
    Scenario may be given by name: `Simulator(scripts=[...], faults=Faults(lost_rate=0.3))`.

    Raises Misconfigured for a bad secret or scenario, and OSError if the port is taken.
    """

    def __init__(
        self,
        port: int = 0,
        host: str = "127.0.0.1",
        secret: str | None = None,
        *,
        scenario: Scenario = EMPTY,
        **parts: Unpack[Parts],
    ) -> None:
        scenario = scenario.changed(parts)
        self.secret = secret or new_secret()
        # Decoded now, and not when the first event is due.
        key = signing.decode_secret(self.secret)
        plans = Plans(batches=scenario.batches, videos=scenario.videos)
        self._state = State(
            scripts=scenario.scripts,
            plans=plans,
            variants=scenario.variants,
            faults=scenario.faults,
        )
        self._scenario = scenario
        self._schedule = Schedule()
        self.keys = KeyRing()
        signer = Signer(self._state, self.keys, key)
        self._deliveries = Deliveries(self._state, self._schedule, signer, scenario.patience)
        for webhook in scenario.webhooks:
            self._register(webhook)
        with _CREATING:
            app = self._create_app(scenario.delay)
        self._server = _bind(host, port, app)
        self._state.url = self.url
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": STOPS_WITHIN}, daemon=True
        )

    @property
    def url(self) -> str:
        return f"http://{self._server.host}:{self._server.port}"

    @property
    def jwks_url(self) -> str:
        return f"{self.url}/.well-known/jwks.json"

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """The newest 100,000 deliveries that were tried or lost."""
        return self._deliveries.attempts

    @property
    def webhooks(self) -> tuple[Webhook, ...]:
        return self._state.webhooks.values()

    @property
    def interactions(self) -> tuple[Interaction, ...]:
        return self._state.interactions.values()

    @property
    def batches(self) -> tuple[Batch, ...]:
        return self._state.batches.values()

    @property
    def scripts(self) -> Sequence[Script]:
        return self._state.scripts

    @scripts.setter
    def scripts(self, scripts: Sequence[Script]) -> None:
        self._state.scripts = tuple(scripts)

    @property
    def variants(self) -> Variants:
        return self._state.variants

    @variants.setter
    def variants(self, variants: Variants) -> None:
        self._state.variants = variants

    @property
    def faults(self) -> Faults:
        return self._state.faults

    @faults.setter
    def faults(self, faults: Faults) -> None:
        self._state.faults = faults

    def subscribe(self, uri: str, secret: str | None = None) -> str:
        """Register *uri* for all that can be subscribed to, and return what signs its events."""
        return self._register(Registered(uri=uri, secret=secret))

    def wait_for(self, enough: Callable[[Sequence[Attempt]], bool], timeout: float = 10) -> bool:
        """Whether the attempts were *enough* before *timeout* seconds passed."""
        return self._deliveries.wait(enough, timeout)

    def start(self) -> None:
        self._schedule.start()
        for change in self._scenario.changes:
            self._schedule.after(change.after, partial(setattr, self, "faults", change.faults))
        self._thread.start()

    def stop(self) -> None:
        self._state.closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self._schedule.stop()
        self._deliveries.close()
        self._state.files.close()

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

    def _register(self, asked: Registered) -> str:
        secret = asked.secret or new_secret()
        webhook = created(asked, SigningSecret(secret))
        self._state.webhooks.put(webhook.id, webhook)
        return secret

    def _create_app(self, delay: float) -> Flask:
        state, announcer = self._state, self._announcer()
        parts = (state, self._schedule, announcer, delay)
        app = Flask(__name__)
        app.config["MAX_CONTENT_LENGTH"] = LARGEST_REQUEST
        refusals.install(app)
        Misbehaviour(state).install(app)
        files = FileRoutes(state.files, lambda: state.variants)
        routes = (
            WebhookRoutes(state, self._deliveries),
            InteractionRoutes(state, Engine(*parts)),
            BatchRoutes(state, BatchJobs(*parts)),
            VideoRoutes(state, VideoJobs(*parts)),
            files,
        )
        blueprints = {
            "": create_api(state, routes),
            "/upload": create_uploads(state, files),
            "/download": create_downloads(state, files),
        }
        for prefix, blueprint in blueprints.items():
            for version in ("v1", "v1beta"):
                name = f"{blueprint.name}-{version}"
                app.register_blueprint(blueprint, url_prefix=f"{prefix}/{version}", name=name)
        app.register_blueprint(ControlRoutes(state, self._deliveries, self.keys).blueprint())
        return app

    def _announcer(self) -> Announcer:
        state = self._state
        return Announcer(self._deliveries.send, self._subscribers, lambda: state.variants)

    def _subscribers(self, event_type: str) -> list[Target]:
        # The older name of an event is subscribed to by the newer one.
        wanted = "batch.succeeded" if event_type == "batch.completed" else event_type
        return [
            Target(webhook.uri, webhook.id)
            for webhook in self._state.webhooks.values()
            if webhook.state == "enabled" and wanted in webhook.subscribed_events
        ]


def serve(
    port: int,
    host: str = "127.0.0.1",
    secret: str | None = None,
    *,
    announce: Callable[[Simulator], None] = lambda _: None,
    scenario: Scenario = EMPTY,
) -> None:
    """Serve until SIGTERM or SIGINT; *announce* is called once it answers."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with Simulator(port, host, secret, scenario=scenario) as simulator:
        announce(simulator)
        while not stop.wait(1.0):  # a signal that comes just before a wait is seen after it
            pass


class _Quiet(WSGIRequestHandler):
    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Say nothing: /control/deliveries tells what happened."""


def _bind(host: str, port: int, app: Flask) -> BaseWSGIServer:
    # Werkzeug's server is not for production, and neither is a simulator: it comes with Flask,
    # starts in a thread, and can be stopped again.
    # The socket is ours: Werkzeug ends the whole process where a port is taken.
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, port), family=family) as listener:
        return make_server(
            host, port, app, threaded=True, request_handler=_Quiet, fd=listener.fileno()
        )
