"""All checks in the order of an event's way, from the settings alone."""

from collections.abc import Callable, Iterator, Sequence

from gemhooks import topology
from gemhooks.doctor import gemini, ours
from gemhooks.doctor.findings import Check, Finding, green, red
from gemhooks.gemini.webhooks import Webhooks
from gemhooks.settings import Settings
from gemhooks.webhooks.places import Held
from gemhooks.webhooks.receivers import Receivers


def all_checks(
    settings: Settings,
    api: Callable[[], Webhooks],
    *,
    receivers: Receivers,
    held: Callable[[], Sequence[Held]],
    webhook: str = "",
    queues: Sequence[str] = (),
    ping_timeout: float = 10.0,
) -> tuple[Check, ...]:
    """*queues* are users' own, besides the built-in ones; without ping_timeout, no ping is sent."""
    hooks = gemini.WebhookChecks(api, receivers, held, webhook)
    names = [each.name for each in topology.BUILT_IN] + [topology.queue_name(q) for q in queues]
    broker, management = settings.broker_url, settings.management_url
    base_url, database = settings.gemini_base_url, settings.database_url
    checks = [
        Check("key", lambda: look_at_key(settings), "set GEMINI_API_KEY or GEMINI_API_KEY_FILE"),
        Check("held", lambda: ours.look_at_held(held()), "see to GEMINI_WEBHOOK_SECRET_FILE"),
        Check("clock", lambda: gemini.look_at_clock(base_url), "see to the network, a proxy, DNS"),
        Check("api", hooks.look_at_api, "see to the key and the network; GEMHOOKS_GEMINI_BASE_URL"),
        Check("webhook", hooks.look_at_webhooks, "see to the secrets: GEMINI_WEBHOOK_SECRET_FILE"),
        Check(
            "receiver",
            lambda: ours.look_at_receivers(receivers),
            "name the receivers' admin ports: --receiver URL, GEMHOOKS_RECEIVERS",
        ),
        Check(
            "ping",
            lambda: hooks.look_at_ping(ping_timeout),
            "mend the lines `api` and `receiver` first",
        ),
        Check(
            "broker",
            lambda: ours.look_at_broker(
                broker.get_secret_value(), names, management.get_secret_value()
            ),
            "start it, and see to GEMHOOKS_BROKER_URL",
        ),
        Check(
            "database",
            lambda: ours.look_at_database(database.get_secret_value()),
            "start it, and see to GEMHOOKS_DATABASE_URL",
        ),
        Check(
            "results",
            lambda: ours.look_at_results(settings.results_url),
            "see to GEMHOOKS_RESULTS_URL, its driver and its rights",
        ),
    ]
    return tuple(each for each in checks if ping_timeout or each.name != "ping")


def look_at_key(settings: Settings) -> Iterator[Finding]:
    if settings.gemini_api_key.get_secret_value():
        yield green("key", "there is one")
    else:
        yield red("key", "there is none", "set GEMINI_API_KEY or GEMINI_API_KEY_FILE")
