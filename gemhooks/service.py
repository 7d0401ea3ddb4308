"""One worker process: connect, serve every subscription, drain on SIGTERM."""

import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import wait
from contextlib import suppress
from dataclasses import dataclass

import structlog
from prometheus_client import CollectorRegistry

from gemhooks import lines, logs
from gemhooks.admin import AdminServer
from gemhooks.beside import beside
from gemhooks.bookkeeping import Bookkeeper
from gemhooks.consumers import Consumers, Subscription
from gemhooks.errors import LedgerUnavailable, Unavailable
from gemhooks.ledger import Ledgers, NullLedger, open_ledger
from gemhooks.messages import Broker, Delivery, Ledger, OnDelivery, Publisher, Subscriber
from gemhooks.metrics import WorkerMetrics
from gemhooks.pool import Pool
from gemhooks.queues.connect import connect_as
from gemhooks.runner import Runner, Work
from gemhooks.settings import Settings
from gemhooks.suspects import Suspects
from gemhooks.tracing import OFF, Tracing, tracing

log = structlog.get_logger()

LOST_PAUSE = 1.0  # seconds
STOP_LOOK = 0.2  # seconds between looks whether it shall stop before it has started
LAST_MARKS = 2.0  # seconds, to write down what was done when all handlers have ended
LAST_CLAIMS = 2.0  # seconds, to release the claims of what was never begun
LAST_BREATH = 1.0  # seconds, at least, for what handlers have left behind: threads, processes


@dataclass(frozen=True)
class Parts:
    """What a process has to offer to its consumers."""

    settings: Settings
    broker: Broker
    ledgers: Ledgers
    registry: CollectorRegistry
    tracing: Tracing = OFF

    @property
    def publisher(self) -> Publisher:
        """Of what handlers publish; traced where that is asked for."""
        return self.tracing.publishing(self.broker.publisher)


class Service:
    """Serves subscriptions from a broker on a bounded pool of threads."""

    def __init__(
        self,
        consumers: Consumers,
        broker: Broker,
        ledger: Ledger,
        metrics: WorkerMetrics,
        settings: Settings,
        *,
        tracing: Tracing = OFF,
    ) -> None:
        self.tracing = tracing
        self.consumers = consumers
        self.broker = broker
        self.ledger = ledger
        self.metrics = metrics
        self.settings = settings
        self._books: list[Bookkeeper] = []
        self._suspects: list[tuple[Runner, Suspects]] = []
        self._pool: Pool[tuple[Runner, Work]] = Pool(self._work, settings.concurrency)
        self._subscribers: list[Subscriber] = []
        self._stopping = threading.Event()
        self._alone = threading.Semaphore(1)

    def start(self) -> None:
        """Declare the queues and begin to take messages."""
        try:
            self.broker.declare(self.consumers.queues())
        except Unavailable as error:
            # Start order does not matter: the broker declares them once it is there.
            log.warning("broker_awaited", reason=logs.redact(str(error)))
        for subscription in self.consumers:
            self._consume(subscription)

    def _consume(self, subscription: Subscription) -> None:
        runner = Runner(
            subscription,
            self.ledger if subscription.rules.once else NullLedger(),
            self.metrics,
            schedule=subscription.rules.retry or self.settings.retry_schedule,
            alone=self._alone,
            publisher=self.tracing.publishing(self.broker.publisher),
            tracing=self.tracing,
        )
        prefetch = self.settings.prefetch or 2 * self.settings.concurrency
        subscriber = self.broker.consume(subscription.queue, self._taker(runner), prefetch=prefetch)
        self.metrics.watch(subscription.queue, lambda: time.monotonic() - subscriber.alive_at)
        self._subscribers.append(subscriber)

    def _taker(self, runner: Runner) -> OnDelivery:
        """What takes a delivery on its way: by the ledger, where there is one, to the pool."""
        if isinstance(runner.ledger, NullLedger):
            return self._taker_without_ledger(runner)
        book = Bookkeeper(runner, self._begin)
        self._books.append(book)

        def take(delivery: Delivery) -> None:
            if delivery.redelivered:  # its starts are counted: it is claimed when it starts
                self._begin(runner, Work(delivery))
            else:
                book.take(Work(delivery))

        return take

    def _taker_without_ledger(self, runner: Runner) -> OnDelivery:
        suspects = Suspects(lambda work: self._begin(runner, work))
        self._suspects.append((runner, suspects))

        def take(delivery: Delivery) -> None:
            if delivery.redelivered:
                suspects.put(Work(delivery))
            else:
                self._begin(runner, Work(delivery))

        return take

    def _begin(self, runner: Runner, work: Work) -> None:
        if not self._pool.put((runner, work)):
            self._give_back(runner, [work])

    def _work(self, begun: tuple[Runner, Work]) -> None:
        runner, work = begun
        try:
            runner.run(work)
        except BaseException:  # a bug of ours: it must neither lose the message nor spin
            log.exception("message_lost_its_runner")
            self._stopping.wait(LOST_PAUSE)
            work.delivery.give_back()
        finally:
            if work.then is not None:
                work.then()

    def _give_back(self, runner: Runner, works: Sequence[Work]) -> None:
        """Untouched, no attempt counted; others need not wait for our claims to end."""
        if claimed := [work.key for work in works if work.claimed]:
            releasing = beside(lambda: self._release(runner, claimed), name="ledger-release")
            wait([releasing], LAST_CLAIMS)  # a database that hangs must hold up nobody
        for work in works:
            if isinstance(runner.ledger, NullLedger):  # redelivered, it would be a suspect
                work.delivery.later(work.delivery.message, after=0)
            else:
                work.delivery.give_back()

    def _release(self, runner: Runner, keys: Sequence[str]) -> None:
        with suppress(LedgerUnavailable):
            runner.ledger.release(runner.subscription.queue, *keys, ended=False)

    def is_ready(self) -> bool:
        """Every queue is really being consumed."""
        return (
            not self._stopping.is_set()
            and self.is_live()
            and self.broker.is_ready()
            and len(self._subscribers) == len(self.consumers)
            and all(each.is_consuming for each in self._subscribers)
        )

    def is_live(self) -> bool:
        """False only for what a restart cures; an outage is not that."""
        return self.broker.is_alive() and all(each.is_alive() for each in self._books)

    def stop(self) -> bool:
        """Take no more, finish what runs within the grace; True when all of it ended."""
        self._stopping.set()
        unbegun = self._pool.stop()
        for runner, suspects in self._suspects:
            unbegun += [(runner, work) for work in suspects.stop()]
        for subscriber in self._subscribers:
            subscriber.stop()
        for runner in {runner for runner, _ in unbegun}:
            self._give_back(runner, [work for each, work in unbegun if each is runner])
        ended = self._pool.wait(self.settings.grace)
        for book in self._books:
            ended = book.close(LAST_MARKS) and ended
        self.broker.close()
        self.tracing.close()
        return ended


def run(build: Callable[[Parts], Consumers], settings: Settings) -> int:
    """Serve what *build* makes until SIGTERM or Ctrl-C; returns the exit code.

    Raises Misconfigured for what a person must mend, LedgerUnavailable for a database that is away.
    A broker that is away is waited for: readiness tells.
    """
    logs.configure(settings.log_format, settings.log_level, gathered=lines.by_thread)
    stop = stop_event()
    registry = CollectorRegistry()
    ledgers = open_ledger(settings.database_url.get_secret_value(), lease=settings.lease)
    broker = connect_as(settings)
    ledger = ledgers.handled if settings.ledger == "on" else NullLedger()
    traced = tracing(wanted=settings.tracing)
    consumers = build(Parts(settings, broker, ledgers, registry, traced))
    service = Service(consumers, broker, ledger, WorkerMetrics(registry), settings, tracing=traced)
    admin = AdminServer(
        settings.admin_host,
        settings.admin_port,
        registry,
        live=service.is_live,
        ready=service.is_ready,
    )
    admin.start()
    if has_started(service, stop):
        queues = [each.queue for each in consumers]
        log.info("service_started", queues=queues, admin_port=admin.port)
    while not stop.wait(1.0):  # a signal that comes just before a wait is seen only after it
        pass
    return shut_down(service, admin, ledgers)


def has_started(service: Service, stop: threading.Event) -> bool:
    """False where it was told to *stop* before: a broker that is away is waited for a while."""
    starting = beside(service.start, name="service-start")
    while not starting.done() and not stop.is_set():
        wait([starting], STOP_LOOK)
    if not starting.done():
        return False
    starting.result()
    return True


def shut_down(service: Service, admin: AdminServer, ledgers: Ledgers) -> int:
    grace_is_over_at = time.monotonic() + service.settings.grace
    ended = service.stop()
    admin.stop()
    log.info("service_stopped", all_ended=ended)
    logs.flush()
    if not ended:
        # A handler that outlives the grace can't be killed: leave it, its message comes back.
        os._exit(0)
    end_within(max(LAST_BREATH, grace_is_over_at - time.monotonic()))
    ledgers.close()
    return 0


def end_within(seconds: float) -> None:
    """End the process then at the latest: Python itself waits for threads and processes that
    handlers have left behind, for ever."""
    end = threading.Timer(seconds, os._exit, (0,))
    end.daemon = True
    end.start()


def stop_event() -> threading.Event:
    """Set by the first SIGTERM or SIGINT; the second ends the process at once."""
    stop = threading.Event()

    def on_signal(number: int, _frame: object) -> None:
        if stop.is_set():
            logs.flush()
            os._exit(128 + number)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    return stop
