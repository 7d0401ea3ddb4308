"""``python -m workers reconcile``: nothing is missed, even where no event comes."""

import os
import random
import threading
from contextlib import closing

import structlog
from prometheus_client import CollectorRegistry

from gemhooks import logs
from gemhooks.admin import AdminServer
from gemhooks.errors import Retry, Unavailable
from gemhooks.gemini import Gemini
from gemhooks.ledger import open_ledger
from gemhooks.metrics import GeminiMetrics, ReconcilerMetrics, WatchedWebhooks
from gemhooks.queues.connect import connect_as
from gemhooks.service import stop_event
from gemhooks.settings import Settings
from workers.observing import GeminiObserver
from workers.reconciling import Limits, Reconciler
from workers.watching import WebhookWatcher

log = structlog.get_logger()


def run(settings: Settings) -> int:
    """Reconcile until SIGTERM or Ctrl-C; returns the exit code."""
    logs.configure(settings.log_format, settings.log_level)
    stop, registry = stop_event(), CollectorRegistry()
    gemini = Gemini.from_settings(settings, asked=GeminiMetrics(registry).asked)
    ledgers = open_ledger(settings.database_url.get_secret_value(), lease=settings.lease)
    with closing(gemini), closing(ledgers), closing(connect_as(settings)) as broker:
        reconciler = Reconciler(
            GeminiObserver(gemini),
            ledgers,
            broker.publisher,
            ReconcilerMetrics(registry),
            limits(settings),
            send=broker.send,
            stop=stop,
            jitter=random.random,
        )
        admin = AdminServer(
            settings.admin_host,
            settings.admin_port,
            registry,
            live=lambda: True,
            ready=broker.is_ready,
        )
        watcher = WebhookWatcher(gemini.webhooks, settings, WatchedWebhooks(registry))
        threading.Thread(target=watcher.keep_on, args=(stop,), daemon=True).start()
        serve(reconciler, admin, stop, settings)
    return 0


def serve(
    reconciler: Reconciler, admin: AdminServer, stop: threading.Event, settings: Settings
) -> None:
    """Go round until *stop*; what hangs then is left behind after the grace."""
    admin.start()
    every = settings.reconcile_every
    rounds = threading.Thread(target=keep_on, args=(reconciler, stop, every), daemon=True)
    rounds.start()
    log.info("reconciler_started", admin_port=admin.port)
    while not stop.wait(1.0):  # a signal that comes just before a wait is seen only after it
        pass
    rounds.join(settings.grace)
    admin.stop()
    log.info("reconciler_stopped", all_ended=not rounds.is_alive())
    if rounds.is_alive():  # a request that hangs can't be ended; what was due stays due
        os._exit(0)


def limits(settings: Settings) -> Limits:
    return Limits(
        expected=settings.expected,
        every=settings.reconcile_every,
        grace=settings.reconcile_grace,
        stuck_after=settings.stuck_after,
        list_every=settings.list_batches_every,
        rate=settings.reconcile_rate,
    )


def keep_on(reconciler: Reconciler, stop: threading.Event, every: float) -> None:
    """One round after the other; whatever ends one, the next one comes."""
    while not stop.is_set():
        stop.wait(max(every * random.uniform(0.8, 1.2), one_round(reconciler)))  # noqa: S311


def one_round(reconciler: Reconciler) -> float:
    """Run a round and return for how many seconds Gemini wants to be left alone."""
    try:
        reconciler.round()
    except Retry as error:
        log.warning("round_cut_short", reason=error.reason)
        return error.at_least
    except Unavailable as error:
        log.warning("round_cut_short", reason=logs.redact(str(error)))
    except Exception:
        log.exception("round_failed")
    return 0.0
