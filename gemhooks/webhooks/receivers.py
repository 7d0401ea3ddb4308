"""What our own receivers say of themselves, on their admin addresses: ready or not, and counts.

Gemini answers a ping with ``{}`` even where nothing arrives, so a delivery is proven on our side:
by the counters of the receiver, which counts an event as published once the queue confirmed it.
"""

import urllib.error
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from gemhooks.asking import NO_ANSWER, asked
from gemhooks.errors import Misconfigured, Unavailable
from gemhooks.metrics import OTHER
from gemhooks.settings import Settings

TIMEOUT = 5.0  # seconds
LARGEST = 4 << 20  # bytes of /metrics
EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # listened on, not called
PUBLISHED, REFUSED = "published", "bad_signature"
OK = 200

Numbers = Mapping[str, float]


@dataclass(frozen=True)
class Counts:
    """What receivers have counted since they started; *keys* are the secrets in use now."""

    unknown: float = 0  # published events of a type that this release does not know: pings too
    known: float = 0  # published events of known types
    unpublished: float = 0  # verified, but not confirmed by the queue
    refused: Numbers = field(default_factory=dict)  # by reason
    verified: Numbers = field(default_factory=dict)  # by the fingerprint of the secret
    keys: frozenset[str] = frozenset()

    def since(self, before: "Counts") -> "Counts":
        """What was added; after a restart, all there is."""
        return Counts(
            _added(self.unknown, before.unknown),
            _added(self.known, before.known),
            _added(self.unpublished, before.unpublished),
            _all_added(self.refused, before.refused),
            _all_added(self.verified, before.verified),
            self.keys,
        )


def _added(after: float, before: float) -> float:
    return after - before if after >= before else after


def _all_added(after: Numbers, before: Numbers) -> Numbers:
    added = {name: _added(count, before.get(name, 0)) for name, count in after.items()}
    return {name: count for name, count in added.items() if count}


@dataclass(frozen=True)
class Receivers:
    """All the receivers behind a webhook's uri, by the URLs of their admin ports."""

    urls: tuple[str, ...]

    @classmethod
    def of(cls, urls: Sequence[str], settings: Settings) -> "Receivers":
        """Those at *urls*, else GEMHOOKS_RECEIVERS, else the one on this machine."""
        host = EVERYWHERE.get(settings.admin_host, settings.admin_host)
        host = f"[{host}]" if ":" in host else host
        found = tuple(urls) or settings.receivers or (f"http://{host}:{settings.admin_port}",)
        for url in found:
            if not url.startswith(("http://", "https://")):
                raise Misconfigured(f"{url} is not the http URL of a receiver's admin port.")
        return cls(tuple(url.rstrip("/") for url in found))

    def look(self) -> tuple[Counts, ...]:
        """Each one's counts; Unavailable if one does not answer: it may be the one that got it."""
        return tuple(_counts(_get(f"{url}/metrics")) for url in self.urls)

    def unready(self) -> str:
        """Empty while every one is ready, else which is not and why."""
        for url in self.urls:
            try:
                _get(f"{url}/readyz")
            except Unavailable as error:
                return str(error)
        return ""


def added(before: Sequence[Counts], after: Sequence[Counts]) -> Counts:
    """What all receivers together counted in between; *keys* are those that all of them hold."""
    each = [now.since(then) for then, now in zip(before, after, strict=True)]
    return Counts(
        sum(one.unknown for one in each),
        sum(one.known for one in each),
        sum(one.unpublished for one in each),
        _sum(one.refused for one in each),
        _sum(one.verified for one in each),
        frozenset.intersection(*(one.keys for one in each)),
    )


def _sum(numbers: Iterable[Numbers]) -> Numbers:
    total: defaultdict[str, float] = defaultdict(float)
    for each in numbers:
        for name, count in each.items():
            total[name] += count
    return dict(total)


def _get(url: str) -> str:
    try:
        with asked(url, timeout=TIMEOUT) as answer:
            return bytes(answer.read(LARGEST)).decode("utf-8", "replace")
    except urllib.error.HTTPError as error:
        error.close()
        raise Unavailable(f"the receiver answers {error.code} at {url}") from None
    except NO_ANSWER as error:
        reason = getattr(error, "reason", None) or error
        raise Unavailable(f"no receiver answers at {url}: {reason}") from None


def _counts(text: str) -> Counts:
    try:
        families = {each.name: each for each in text_string_to_metric_families(text)}
    except ValueError:
        raise Unavailable("the receiver's /metrics can't be read") from None
    requests = families.get("gemhooks_webhook_requests")
    outcomes = _by(requests, "outcome")
    unknown = _by(requests, "outcome", event_type=OTHER).get(PUBLISHED, 0)
    return Counts(
        unknown=unknown,
        known=outcomes.get(PUBLISHED, 0) - unknown,
        unpublished=outcomes.get("publish_failed", 0) + outcomes.get("keys_unavailable", 0),
        refused=_by(families.get("gemhooks_webhook_signature_failures"), "reason"),
        verified=_by(families.get("gemhooks_webhook_verified"), "key"),
        keys=frozenset(_by(families.get("gemhooks_webhook_key_info"), "key")),
    )


def _by(family: Metric | None, label: str, **wanted: str) -> Numbers:
    """The samples of *family*, summed by *label*; those of creation times are left out."""
    total: defaultdict[str, float] = defaultdict(float)
    for sample in family.samples if family else ():
        if sample.name.endswith("_created") or not wanted.items() <= sample.labels.items():
            continue
        total[sample.labels.get(label, "")] += sample.value
    return dict(total)
