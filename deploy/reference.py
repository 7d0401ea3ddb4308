"""Writes docs/reference/metrics.md from gemhooks/metrics.py; a test compares them."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from gemhooks import metrics

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "metrics.md"
HEAD = """\
# Metrics

Written by `make generated` from `gemhooks/metrics.py`. Every role serves them at `/metrics` on
`GEMHOOKS_ADMIN_PORT`; RabbitMQ's own come from its Prometheus plugin (port 15692). Labels come from
closed sets: what a stranger or a model can choose is counted as `other`.
"""
ROLES: dict[str, tuple[Callable[[CollectorRegistry], object], ...]] = {
    "receiver": (metrics.ReceiverMetrics, lambda registry: metrics.KeyMetrics(registry, _Keys())),
    "workers, consume": (metrics.WorkerMetrics,),
    "workers": (
        metrics.ResultMetrics,
        metrics.FunctionMetrics,
        lambda registry: metrics.StandingCalls(registry, parked=dict, abandoned=int),
        metrics.GeminiMetrics,
    ),
    "reconcile": (metrics.ReconcilerMetrics, metrics.WatchedWebhooks, metrics.GeminiMetrics),
    "webhook ensure --every": (metrics.WebhookMetrics,),
}


class _Keys:
    """Keys that make every family of KeyMetrics show."""

    def fingerprints(self) -> Iterator[tuple[str, str]]:
        yield "v1", "fingerprint"

    def published_age(self) -> float | None:
        return 0.0


class Described:
    """A registry that remembers what was declared in it, labels included."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()

    def rows(self) -> Iterator[tuple[str, str, tuple[str, ...], str]]:
        """Name as it is scraped, type, labels, help."""
        for collector in list(self.registry._collector_to_names):  # noqa: SLF001 - the only list
            labels = getattr(collector, "_labelnames", None)
            for family in collector.collect():
                suffix = "_total" if family.type == "counter" else ""
                found: Any = labels if labels is not None else getattr(family, "_labelnames", ())
                yield family.name + suffix, family.type, tuple(found), family.documentation


def described(role: str) -> list[tuple[str, str, tuple[str, ...], str]]:
    found = Described()
    for make in ROLES[role]:
        make(found.registry)
    return sorted(found.rows())


def names() -> set[str]:
    """Every name as Prometheus stores it, those of histograms in their three forms."""
    found = set()
    for role in ROLES:
        for name, kind, _, _ in described(role):
            found |= (
                {f"{name}_{part}" for part in ("bucket", "sum", "count")}
                if kind == "histogram"
                else {name}
            )
    return found


def page() -> str:
    return HEAD + "".join(_section(role) for role in ROLES)


def _section(role: str) -> str:
    head = f"\n## {role}\n\n| name | type | labels | what it is |\n| --- | --- | --- | --- |\n"
    return head + "".join(_row(*each) for each in described(role))


def _row(name: str, kind: str, labels: tuple[str, ...], text: str) -> str:
    return f"| `{name}` | {kind} | {', '.join(f'`{each}`' for each in labels)} | {text} |\n"


if __name__ == "__main__":
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")
