"""The worker that dies: the whole service, put together as ``python -m workers`` does it."""

import signal
import threading
from dataclasses import dataclass, replace
from typing import Any, cast

from msgspec import structs
from prometheus_client import CollectorRegistry

from gemhooks import logs
from gemhooks.gemini import Gemini
from gemhooks.ledger import Calls, open_ledger
from gemhooks.metrics import ResultMetrics, WorkerMetrics
from gemhooks.queues.connect import connect
from gemhooks.results import ResultsStore
from gemhooks.service import Parts, Service
from gemhooks.settings import Settings
from tests.workers.crashes.steps import (
    DyingCalls,
    DyingInteractions,
    DyingLedger,
    Killer,
    Step,
    functions,
)
from workers.calling import caller_of
from workers.wiring import built_in_consumers

LEASE = 0.3  # seconds


@dataclass(frozen=True)
class Plan:
    """One life of the worker; it ends at *step*, or when told to."""

    env: dict[str, str]
    effects: str
    step: Step = Step.NEVER
    number: int = 1


@dataclass(frozen=True)
class _Gemini:
    interactions: Any


def live(plan: Plan) -> None:
    """Serve until SIGTERM or the fatal step."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    killer = Killer(plan.step, plan.number)
    # Shorter than a person may set it, so that a dead worker's claims end soon.
    settings = structs.replace(Settings.from_env(plan.env), lease=LEASE)
    logs.configure("json", "error")
    registry = CollectorRegistry()
    ledgers = open_ledger(settings.database_url.get_secret_value(), lease=settings.lease)
    broker = connect(settings.broker_url.get_secret_value(), publish_timeout=10)
    dying = replace(ledgers, calls=cast("Calls", DyingCalls(ledgers.calls, killer)))
    real = Gemini("key", base_url=settings.gemini_base_url, timeout=settings.gemini_timeout)
    gemini = cast("Gemini", _Gemini(DyingInteractions(real.interactions, killer)))
    caller = caller_of(
        functions(killer, plan.effects), Parts(settings, broker, dying, registry), gemini
    )
    results = ResultsStore(settings.results_url)
    consumers = built_in_consumers(
        gemini.interactions,
        results,
        broker.publisher,
        ledgers.jobs,
        metrics=ResultMetrics(registry),
        functions=caller,
    )
    service = Service(
        consumers,
        broker,
        DyingLedger(ledgers.handled, killer),
        WorkerMetrics(registry),
        settings,
    )
    service.start()
    stop.wait()
    service.stop()
    ledgers.close()
