"""How a webhook differs from what it should be, and our secrets from those Gemini lists."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from gemhooks.gemini.webhooks import DISABLED, ENABLED, FAILED, Webhook
from gemhooks.webhooks.desired import Desired
from gemhooks.webhooks.places import Held


class Kind(StrEnum):
    """What differs."""

    MISSING = "missing"
    URI = "uri"
    EVENTS = "events"
    NAME = "name"
    DISABLED = "disabled"  # by hand
    GAVE_UP = "gave_up"  # by Gemini, after failed deliveries
    ENABLED = "enabled"
    SECRET_MISSING = "secret_missing"  # noqa: S105 - we cannot verify what it signs
    SECRET_OLD_MISSING = "secret_old_missing"  # noqa: S105 - as above, for a while
    SECRET_ENDED = "secret_ended"  # noqa: S105 - we hold what signs no more


NOTES = (Kind.SECRET_OLD_MISSING, Kind.SECRET_ENDED)  # worth saying, not worth an alarm


@dataclass(frozen=True)
class Drift:
    """One difference: in words, what to do, and the field of an update that mends it."""

    kind: Kind
    text: str
    remedy: str = ""
    field: tuple[str, Any] | None = None

    @property
    def is_note(self) -> bool:
        return self.kind in NOTES


def of_state(desired: Desired, webhook: Webhook | None) -> Iterator[Drift]:
    """What an update, or a creation, would mend."""
    if webhook is None:
        yield Drift(Kind.MISSING, f"no webhook calls {desired.uri}")
        return
    if webhook.uri != desired.uri:
        yield Drift(Kind.URI, f"it calls {webhook.uri}", field=("uri", desired.uri))
    if set(webhook.subscribed_events) != set(desired.events):
        field = ("subscribed_events", list(desired.events))
        yield Drift(Kind.EVENTS, _events(desired, webhook), field=field)
    if desired.name and webhook.name != desired.name:
        text = f"its name is {webhook.name or 'not set'}"
        yield Drift(Kind.NAME, text, field=("name", desired.name))
    if desired.enabled and webhook.state != ENABLED:
        kind = Kind.GAVE_UP if webhook.state == FAILED else Kind.DISABLED
        yield Drift(kind, f"it is {webhook.state}", field=("state", ENABLED))
    if not desired.enabled and webhook.state == ENABLED:
        yield Drift(Kind.ENABLED, "it is enabled", field=("state", DISABLED))


def _events(desired: Desired, webhook: Webhook) -> str:
    missing = sorted(set(desired.events) - set(webhook.subscribed_events))
    more = sorted(set(webhook.subscribed_events) - set(desired.events))
    parts = [f"lacks {', '.join(missing)}"] if missing else []
    parts += [f"has {', '.join(more)} besides"] if more else []
    return "its subscription " + " and ".join(parts)


def of_secrets(webhook: Webhook, held: Sequence[Held]) -> Iterator[Drift]:
    """Where Gemini's list of secrets and ours differ; only last characters are compared."""
    now = datetime.now(UTC)
    ours = {each.truncated for each in held}
    alive = [each for each in webhook.signing_secrets if each.is_alive(now)]
    for secret in alive:
        if secret.truncated_secret in ours:
            continue
        if secret.expire_time is None:
            yield Drift(
                Kind.SECRET_MISSING,
                f"Gemini signs with {secret.truncated_secret}, which we do not hold",
                f"gemhooks webhook rotate {webhook.id} --save-to ...",
            )
        else:
            yield Drift(
                Kind.SECRET_OLD_MISSING,
                f"Gemini may sign with {secret.truncated_secret}, which we do not hold,"
                f" until {secret.expire_time:%Y-%m-%d %H:%M}Z",
            )
    listed = {each.truncated_secret for each in alive}
    for one in held:
        if one.path and one.path.name.startswith(f"{webhook.id}-") and one.truncated not in listed:
            yield Drift(
                Kind.SECRET_ENDED,
                f"we hold {one.truncated}, which Gemini lists no more",
                f"gemhooks webhook rotate {webhook.id} --resume",
            )
