"""What the reconciler tells of the project's webhooks and our secrets."""

from datetime import UTC, datetime
from pathlib import Path

from prometheus_client import CollectorRegistry

from gemhooks.gemini.webhooks import FAILED, SigningSecret, Webhook
from gemhooks.metrics import WatchedWebhooks
from gemhooks.webhooks.places import Held
from workers.watching import watched

NOW = 1_800_000_000.0
END = datetime.fromtimestamp(NOW + 3600, UTC)
NEW = SigningSecret(truncated_secret="...new1")
OLD = SigningSecret(truncated_secret="...old1", expire_time=END)


def test_a_webhook_that_gemini_gave_up_is_seen() -> None:
    seen = watched([Webhook(id="a"), Webhook(id="b", state=FAILED)], (), now=NOW)

    assert seen.enabled == {"a": True, "b": False}
    assert seen.missing_secrets == {}  # nobody can say: we hold none


def test_a_secret_that_we_do_not_hold_is_counted_and_one_that_ends_is_dated() -> None:
    webhook = Webhook(id="a", signing_secrets=(NEW, OLD))
    seen = watched([webhook], [Held("f1", "...old1")], now=NOW)

    assert seen.missing_secrets == {"a": 1}
    assert [(each.key, each.expires) for each in seen.secrets] == [("f1", END.timestamp())]


def test_a_secret_is_as_old_as_its_file(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.touch()
    written = file.stat().st_mtime

    (secret,) = watched([], [Held("f1", "...new1", file)], now=written + 60).secrets

    assert secret.age == 60


def test_what_is_gone_leaves_no_series_behind() -> None:
    registry = CollectorRegistry()
    metrics = WatchedWebhooks(registry)

    metrics.saw(watched([Webhook(id="a"), Webhook(id="b")], (), now=NOW))
    metrics.saw(watched([Webhook(id="b")], (), now=NOW + 60))

    assert registry.get_sample_value("gemhooks_webhook_enabled", {"webhook": "a"}) is None
    assert registry.get_sample_value("gemhooks_webhook_enabled", {"webhook": "b"}) == 1
    assert registry.get_sample_value("gemhooks_webhook_seen_timestamp_seconds") == NOW + 60


def test_many_webhooks_make_a_bounded_number_of_series() -> None:
    registry = CollectorRegistry()
    many = [Webhook(id=f"hook-{number}") for number in range(500)]
    WatchedWebhooks(registry).saw(watched(many, (), now=NOW))

    (enabled,) = (each for each in registry.collect() if each.name == "gemhooks_webhook_enabled")
    assert len(enabled.samples) == 50
