"""Looks at the project's webhooks, so that what silences them is seen before events are missed."""

import random
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import structlog

from gemhooks import keys, logs
from gemhooks.errors import GemhooksError
from gemhooks.gemini.webhooks import ENABLED, Webhook, Webhooks
from gemhooks.metrics import Watched, WatchedSecret, WatchedWebhooks
from gemhooks.settings import Settings
from gemhooks.webhooks import drift
from gemhooks.webhooks.drift import Kind
from gemhooks.webhooks.places import Held, SecretPlace

log = structlog.get_logger()

EVERY, AGAIN = 60.0, 10.0  # seconds


@dataclass(frozen=True)
class WebhookWatcher:
    """Reads only; ``gemhooks webhook ensure`` mends."""

    api: Webhooks
    settings: Settings
    metrics: WatchedWebhooks

    def keep_on(self, stop: threading.Event) -> None:
        """Look every minute until *stop*, sooner after one that failed."""
        while not stop.is_set():
            pause = EVERY if self.look() else AGAIN
            stop.wait(pause * random.uniform(0.8, 1.2))  # noqa: S311 - jitter

    def look(self) -> bool:
        """Whether Gemini answered; what fails is logged, and the last look's age tells."""
        try:
            self.metrics.saw(watched(self.api.list(), self._held(), now=time.time()))
        except GemhooksError as error:
            log.warning("webhooks_not_seen", reason=logs.redact(str(error)))
        except Exception:
            log.exception("webhooks_not_seen")
        else:
            return True
        return False

    def _held(self) -> tuple[Held, ...]:
        if self.settings.webhook_secret_path:
            return SecretPlace(self.settings.webhook_secret_path).held()
        text = self.settings.webhook_secret.get_secret_value()
        return tuple(Held.of(each) for each in keys.read_secrets(text, None)) if text else ()


def watched(webhooks: Sequence[Webhook], held: Sequence[Held], *, now: float) -> Watched:
    """Gemini's list beside our secrets; without any, nothing is said to be missing."""
    return Watched(
        at=now,
        enabled={each.id: each.state == ENABLED for each in webhooks},
        missing_secrets={each.id: _missing(each, held) for each in webhooks if held},
        secrets=tuple(_secret(each, webhooks, now) for each in held),
    )


def _missing(webhook: Webhook, held: Sequence[Held]) -> int:
    return sum(each.kind is Kind.SECRET_MISSING for each in drift.of_secrets(webhook, held))


def _secret(held: Held, webhooks: Sequence[Webhook], now: float) -> WatchedSecret:
    ends = [
        listed.expire_time
        for webhook in webhooks
        for listed in webhook.signing_secrets
        if listed.truncated_secret == held.truncated and listed.expire_time
    ]
    expires = min(ends).timestamp() if ends else None
    return WatchedSecret(held.fingerprint, _age(held, now), expires)


def _age(held: Held, now: float) -> float | None:
    with suppress(OSError):
        if held.path:
            return max(0.0, now - held.path.stat().st_mtime)
    return None
