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
from gemhooks.simulator.announcer import Announcer
from gemhooks.simulator.api import create_api, create_downloads, create_uploads
from gemhooks.simulator.batch import Batch
from gemhooks.simulator.batch_jobs import BatchJobs
from gemhooks.simulator.batches import BatchRoutes
from gemhooks.simulator.clock import webhook_resource_id
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
from gemhooks.simulator.file_routes import FileRoutes
from gemhooks.simulator.interactions import InteractionRoutes
from gemhooks.simulator.plans import BatchPlan, Plans, VideoPlan
from gemhooks.simulator.schedule import Schedule
from gemhooks.simulator.scripts import Script
from gemhooks.simulator.state import Interaction, SigningSecret, State, Webhook
from gemhooks.simulator.variants import Variants
from gemhooks.simulator.videos import VideoJobs, VideoRoutes
from gemhooks.simulator.webhooks import SUBSCRIBABLE, WebhookRoutes

NO_FAULTS, USUAL = Faults(), Variants()
LARGEST_REQUEST = 64 << 20  # bytes; uploads of files may be larger
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
        batches: Sequence[BatchPlan] = (),
        videos: Sequence[VideoPlan] = (),
        variants: Variants = USUAL,
        faults: Faults = NO_FAULTS,
    ) -> None:
        self.secret = secret or new_secret()
        signing.decode_secret(self.secret)  # now, and not when the first event is due
        plans = Plans(batches=tuple(batches), videos=tuple(videos))
        self._state = State(scripts=scripts, plans=plans, variants=variants, faults=faults)
        self._schedule = Schedule()
        patience = Patience(retry_base, max_attempts, timeout)
        self._deliveries = Deliveries(
            self._schedule, lambda: self._state.dice, self._secrets_of, patience
        )
        self._announcer = Announcer(
            self._deliveries, self._subscribers, lambda: self._state.variants
        )
        self._server = _bind(host, port, self._create_app(delay))
        self._state.url = self.url
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
        return self._state.interactions.values()

    @property
    def batches(self) -> tuple[Batch, ...]:
        return self._state.batches.values()

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
        secret = secret or new_secret()
        signing.decode_secret(secret)
        secrets = (SigningSecret(secret),)
        webhook = Webhook(webhook_resource_id(), uri, SUBSCRIBABLE, secrets)
        self._state.webhooks.put(webhook.id, webhook)
        return secret

    def wait_for(self, enough: Callable[[Sequence[Attempt]], bool], timeout: float = 10) -> bool:
        """Whether the attempts were *enough* before *timeout* seconds passed."""
        return self._deliveries.wait(enough, timeout)

    def start(self) -> None:
        self._schedule.start()
        self._thread.start()

    def stop(self) -> None:
        self._state.is_closed = True
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

    def _create_app(self, delay: float) -> Flask:
        state, parts = self._state, (self._state, self._schedule, self._announcer, delay)
        app = Flask(__name__)
        app.config["MAX_CONTENT_LENGTH"] = LARGEST_REQUEST
        refusals.install(app)
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
        app.register_blueprint(ControlRoutes(state, self._deliveries).blueprint())
        return app

    def _subscribers(self, event_type: str) -> list[Target]:
        # The events' two older names are subscribed to by the newer ones.
        wanted = "batch.succeeded" if event_type == "batch.completed" else event_type
        return [
            Target(webhook.uri, webhook.id)
            for webhook in self._state.webhooks.values()
            if webhook.state == "enabled" and wanted in webhook.subscribed_events
        ]

    def _secrets_of(self, target: Target) -> list[bytes]:
        if target.webhook_id is None:
            return [signing.decode_secret(self.secret)]
        webhook = self._state.webhooks.find(target.webhook_id)
        secrets = webhook.secrets if webhook is not None else ()
        return [signing.decode_secret(secret.text) for secret in secrets if secret.alive]


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
