"""Every metric's name, help and labels: the one place that names them."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gemhooks.beside import beside
from gemhooks.errors import LedgerUnavailable
from gemhooks.heads import FAMILIES, TYPES

PATIENCE = 2.0  # seconds; Prometheus gives a scrape ten
KNOWN = frozenset(TYPES)
OTHER = "other"  # what a stranger can choose must not become a series of its own
FAST = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
LAGS = (0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 6 * 3600.0, 24 * 3600.0)
SLOW = (0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0)


def known_type(event_type: str) -> str:
    return event_type if event_type in KNOWN else OTHER


class _Counted:
    """A counter whose children are found in a dict, in a tenth of the time of labels()."""

    def __init__(self, counter: Counter) -> None:
        self._counter = counter
        self._children: dict[tuple[str, ...], Any] = {}

    def add(self, *labels: str, amount: float = 1) -> None:
        child = self._children.get(labels)
        if child is None:
            child = self._children[labels] = self._counter.labels(*labels)
        child.inc(amount)


class ReceiverMetrics:
    """What the receiver counts."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = _Counted(
            Counter(
                "gemhooks_webhook_requests_total",
                "Requests to the webhook paths, by what became of them.",
                ("event_type", "scheme", "outcome"),
                registry=registry,
            )
        )
        self._failures = _Counted(
            Counter(
                "gemhooks_webhook_signature_failures_total",
                "Webhooks refused for their signature.",
                ("reason",),
                registry=registry,
            )
        )
        self._verified = _Counted(
            Counter(
                "gemhooks_webhook_verified_total",
                "Webhooks whose signature was right, by the key that made it.",
                ("scheme", "key"),
                registry=registry,
            )
        )
        self._published = _Counted(
            Counter(
                "gemhooks_publish_total",
                "Messages handed to the broker, by result.",
                ("result",),
                registry=registry,
            )
        )
        self._seconds = Histogram(
            "gemhooks_webhook_request_seconds",
            "From the request to its answer.",
            buckets=FAST,
            registry=registry,
        )
        self._publish_seconds = Histogram(
            "gemhooks_publish_seconds",
            "From handing a message to the broker to its confirm.",
            buckets=FAST,
            registry=registry,
        )

    def answered(self, event_type: str, scheme: str, outcome: str, seconds: float) -> None:
        self._requests.add(known_type(event_type), scheme, outcome)
        self._seconds.observe(seconds)

    def verified(self, scheme: str, key: str) -> None:
        self._verified.add(scheme, key)

    def signature_failed(self, reason: str) -> None:
        self._failures.add(reason)

    def published(self, result: str, seconds: float) -> None:
        self._published.add(result)
        self._publish_seconds.observe(seconds)


class KeysInUse(Protocol):
    """What can be told in public of the keys that count now."""

    def fingerprints(self) -> Iterable[tuple[str, str]]:
        """Scheme and fingerprint of each."""
        ...

    def published_age(self) -> float | None:
        """Seconds since the published keys were fetched; None while there are none."""
        ...


class KeyMetrics(Collector):
    """Which keys count, read whenever somebody asks: they change without us."""

    def __init__(self, registry: CollectorRegistry, keys: KeysInUse) -> None:
        self._keys = keys
        registry.register(self)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        found = GaugeMetricFamily(
            "gemhooks_webhook_key_info",
            "The keys that webhooks are checked with, by fingerprint.",
            labels=("scheme", "key"),
        )
        for scheme, key in self._keys.fingerprints():
            found.add_metric((scheme, key), 1)
        yield found
        age = self._keys.published_age()
        if age is not None:
            yield GaugeMetricFamily(
                "gemhooks_jwks_age_seconds", "Since the published keys were fetched.", value=age
            )


class WorkerMetrics:
    """What a worker counts."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._messages = _Counted(
            Counter(
                "gemhooks_messages_total",
                "Messages handled, by what became of them.",
                ("queue", "event_type", "outcome"),
                registry=registry,
            )
        )
        self._seconds = Histogram(
            "gemhooks_message_seconds",
            "From taking a message to settling it.",
            ("queue",),
            buckets=SLOW,
            registry=registry,
        )
        self._in_flight = Gauge(
            "gemhooks_messages_in_flight",
            "Messages that are being handled.",
            ("queue",),
            registry=registry,
        )
        self._alive_age = Gauge(
            "gemhooks_consumer_alive_age_seconds",
            "Seconds since it was last proved that the queue is being consumed.",
            ("queue",),
            registry=registry,
        )

        self._lag = Histogram(
            "gemhooks_event_lag_seconds",
            "From the event, as it is dated, to its being handled: waits and retries included.",
            ("queue",),
            buckets=LAGS,
            registry=registry,
        )

    def watch(self, queue: str, alive_age: Callable[[], float]) -> None:
        """Let the gauge of *queue* ask *alive_age*."""
        self._alive_age.labels(queue).set_function(alive_age)

    def of(self, queue: str) -> "QueueMetrics":
        """Those of one queue, looked up once."""
        return QueueMetrics(
            self._in_flight.labels(queue),
            self._seconds.labels(queue),
            self._lag.labels(queue),
            partial(self._messages.add, queue),
        )


@dataclass(frozen=True, slots=True)
class QueueMetrics:
    """What a worker counts of one queue."""

    in_flight: Gauge
    _seconds: Histogram
    _lag: Histogram
    _count: Callable[[str, str], None]

    def handled(
        self, event_type: str, outcome: str, seconds: float, lag: float | None = None
    ) -> None:
        """*lag*, in seconds, is given for what was done for the first time."""
        self._count(known_type(event_type), outcome)
        self._seconds.observe(seconds)
        if lag is not None:
            self._lag.observe(lag)


class FunctionMetrics:
    """What a worker counts of the calls that it runs."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._calls = _Counted(
            Counter(
                "gemhooks_function_calls_total",
                "Function calls that ended, by how.",
                ("function", "outcome"),
                registry=registry,
            )
        )
        self._seconds = Histogram(
            "gemhooks_function_seconds",
            "From the start of a function to its end or its deadline.",
            ("function",),
            buckets=SLOW,
            registry=registry,
        )

    def called(self, function: str, outcome: str, seconds: float) -> None:
        """*function* is the name of a registered one, or OTHER: a model may say anything."""
        self._calls.add(function, outcome)
        self._seconds.labels(function).observe(seconds)


class StandingCalls(Collector):
    """How the calls stand, asked anew whenever somebody looks: other processes change them."""

    def __init__(
        self,
        registry: CollectorRegistry,
        *,
        parked: Callable[[], Mapping[str, int]],
        abandoned: Callable[[], int],
    ) -> None:
        self._parked = parked
        self._asked: Future[Mapping[str, int]] | None = None
        self._abandoned = abandoned
        registry.register(self)

    def describe(self) -> Iterator[Metric]:
        """Without it, being registered would ask the database already."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        yield CounterMetricFamily(
            "gemhooks_function_calls_abandoned",
            "Calls that were left running in their thread at their deadline.",
            value=self._abandoned(),
        )
        found = GaugeMetricFamily(
            "gemhooks_function_calls_parked",
            "Calls and continuations that wait for a person, by why.",
            labels=("reason",),
        )
        with suppress(LedgerUnavailable, TimeoutError):  # no number is better than a wrong one
            for reason, number in self._ask().result(PATIENCE).items():
                found.add_metric((reason,), number)
            yield found

    def _ask(self) -> Future[Mapping[str, int]]:
        """On a thread that may be left behind: a silent database must not hold up a scrape."""
        if self._asked is None or self._asked.done():
            self._asked = beside(self._parked, name="metrics")
        return self._asked


class ReconcilerMetrics:
    """What the reconciler counts."""

    CONDITIONS = ("open", "stuck", "vanished")

    def __init__(self, registry: CollectorRegistry) -> None:
        self._looks = _Counted(
            Counter(
                "gemhooks_reconciler_looks_total",
                "Jobs looked up at Gemini, by what was found.",
                ("kind", "outcome"),
                registry=registry,
            )
        )
        self._missed = _Counted(
            Counter(
                "gemhooks_reconciler_missed_events_total",
                "Events that Gemini did not send and the reconciler published.",
                ("event_type",),
                registry=registry,
            )
        )
        for event_type in TYPES:  # from 0: a first miss must be an increase, not a new series
            self._missed.add(event_type, amount=0)
        self._rounds = Counter(
            "gemhooks_reconciler_rounds_total", "Rounds that came to their end.", registry=registry
        )
        self._jobs = Gauge(
            "gemhooks_jobs",
            "Jobs that have not ended: all of them, and those that are stuck or vanished.",
            ("kind", "condition"),
            registry=registry,
        )

    def looked(self, kind: str, outcome: str) -> None:
        self._looks.add(_kind(kind), outcome)

    def missed(self, event_type: str) -> None:
        self._missed.add(known_type(event_type))

    def counted(self, tally: Mapping[tuple[str, str], int]) -> None:
        """A round has ended, and so stand the jobs now."""
        self._rounds.inc()
        for kind in (*FAMILIES, OTHER):
            for condition in self.CONDITIONS:
                total = sum(
                    count
                    for (known, what), count in tally.items()
                    if (_kind(known), what) == (kind, condition)
                )
                self._jobs.labels(kind, condition).set(total)


def _kind(kind: str) -> str:
    return kind if kind in FAMILIES else OTHER


class GeminiMetrics:
    """What we ask Gemini."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = _Counted(
            Counter(
                "gemhooks_gemini_requests_total",
                "Requests to Gemini, by the class of its answer.",
                ("answer",),
                registry=registry,
            )
        )

    def asked(self, status: int | None) -> None:
        """*status* is None where there was no answer."""
        self._requests.add(_answer_class(status))


def _answer_class(status: int | None) -> str:
    if status is None:
        return "none"
    return str(status) if status in TELLING else f"{status // 100}xx"


TELLING = (401, 403, 404, 429)  # statuses that mean something of their own
MOST_WEBHOOKS = 50  # of a project; and as many secrets


@dataclass(frozen=True, slots=True)
class WatchedSecret:
    """A secret of ours: its fingerprint; its age and its end, where they are known."""

    key: str
    age: float | None = None  # seconds
    expires: float | None = None  # Unix seconds


@dataclass(frozen=True, slots=True)
class Watched:
    """How Gemini's list of webhooks compares with what we hold."""

    at: float  # Unix seconds
    enabled: Mapping[str, bool]  # by webhook id
    missing_secrets: Mapping[str, int]  # by webhook id: what may sign and can't be verified
    secrets: tuple[WatchedSecret, ...]


class WatchedWebhooks(Collector):
    """The project's webhooks as of the last look; those that are gone leave no series behind."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._seen: Watched | None = None
        registry.register(self)

    def saw(self, watched: Watched) -> None:
        self._seen = watched

    def collect(self) -> Iterator[GaugeMetricFamily]:
        seen = self._seen
        for name, text, labels, values in self._families(seen):
            family = GaugeMetricFamily(name, text, labels=labels)
            for label, value in values[:MOST_WEBHOOKS]:
                family.add_metric([label] if labels else [], value)
            yield family

    def _families(
        self, seen: Watched | None
    ) -> Iterator[tuple[str, str, tuple[str, ...], list[tuple[str, float]]]]:
        yield (
            "gemhooks_webhook_seen_timestamp_seconds",
            "When Gemini last answered how its webhooks stand.",
            (),
            [("", seen.at)] if seen else [],
        )
        yield (
            "gemhooks_webhook_enabled",
            "1 while Gemini delivers, 0 while the webhook is disabled or missing.",
            ("webhook",),
            [(each, float(is_on)) for each, is_on in seen.enabled.items()] if seen else [],
        )
        yield (
            "gemhooks_webhook_secrets_missing",
            "Secrets that Gemini may sign with and we do not hold.",
            ("webhook",),
            [(each, float(count)) for each, count in seen.missing_secrets.items()] if seen else [],
        )
        secrets = seen.secrets if seen else ()
        yield (
            "gemhooks_webhook_secret_age_seconds",
            "Since the secret was put where we read it.",
            ("key",),
            [(each.key, each.age) for each in secrets if each.age is not None],
        )
        yield (
            "gemhooks_webhook_secret_expires_timestamp_seconds",
            "When Gemini ceases to sign with this secret, where it has told an end.",
            ("key",),
            [(each.key, each.expires) for each in secrets if each.expires is not None],
        )


MOST_MODELS = 50  # series of one process; the next model's tokens are counted as "other"
MODEL = re.compile(r"[a-z0-9][a-z0-9.-]{0,79}")
MODALITIES = frozenset({"text", "image", "audio", "video", "document", "unspecified"})
ROWS = frozenset({"ok", "failed", "empty", "malformed"})


class ResultMetrics:
    """What the fetched results were and cost."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._tokens = _Counted(
            Counter(
                "gemhooks_tokens_total",
                "Tokens that fetched results report; cached ones are a part of the input.",
                ("model", "kind", "modality"),
                registry=registry,
            )
        )
        self._rows = _Counted(
            Counter(
                "gemhooks_batch_rows_total",
                "Rows of fetched batches, by what each of them is.",
                ("outcome",),
                registry=registry,
            )
        )
        self._bytes = _Counted(
            Counter(
                "gemhooks_result_bytes_total",
                "Bytes fetched from Gemini, what was fetched twice included.",
                ("kind",),
                registry=registry,
            )
        )
        self._seconds = Histogram(
            "gemhooks_result_seconds",
            "From asking for a result to its being stored.",
            ("kind",),
            buckets=SLOW,
            registry=registry,
        )
        self._models: set[str] = set()

    def tokens(self, model: str, kind: str, modality: str, count: int) -> None:
        modality = modality if modality in MODALITIES else OTHER
        self._tokens.add(self._known_model(model), kind, modality, amount=count)

    def rows(self, outcome: str, count: int) -> None:
        self._rows.add(outcome if outcome in ROWS else OTHER, amount=count)

    def fetched(self, kind: str, size: int, seconds: float) -> None:
        """*kind* is a word of ours: interaction, batch or video; *size* is in bytes."""
        self._bytes.add(kind, amount=size)
        self._seconds.labels(kind).observe(seconds)

    def _known_model(self, model: str) -> str:
        """A name that Gemini gave, as long as they are few and look like one."""
        if model not in self._models:
            if len(self._models) >= MOST_MODELS or not MODEL.fullmatch(model):
                return OTHER
            self._models.add(model)
        return model


class WebhookMetrics:
    """How the webhooks stand at Gemini's side, as ``gemhooks webhook ensure --every`` sees them."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._enabled = Gauge(
            "gemhooks_webhook_enabled",
            "1 while Gemini delivers, 0 while the webhook is disabled or missing.",
            ("webhook",),
            registry=registry,
        )
        self._drift = Gauge(
            "gemhooks_webhook_drift",
            "1 while the webhook differs from its declaration in this way.",
            ("webhook", "kind"),
            registry=registry,
        )
        self._seen = Gauge(
            "gemhooks_webhook_seen_timestamp_seconds",
            "When Gemini last answered how its webhooks stand.",
            registry=registry,
        )

    def seen(self, webhook: str, *, enabled: bool, drift: Mapping[str, bool]) -> None:
        """*webhook* is its declared name or uri, so that there are as many as were declared."""
        self._enabled.labels(webhook).set(enabled)
        for kind, differs in drift.items():
            self._drift.labels(webhook, kind).set(differs)
        self._seen.set_to_current_time()
