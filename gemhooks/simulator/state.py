"""All that the simulator remembers, in memory, behind one lock."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from gemhooks.simulator.clock import interaction_id, rfc3339
from gemhooks.simulator.faults import Dice, Faults
from gemhooks.simulator.refusals import Refusal, not_found
from gemhooks.simulator.scripts import Script

Step = Mapping[str, Any]


@dataclass(frozen=True)
class SigningSecret:
    text: str
    expires: float | None = None  # seconds since 1970

    @property
    def alive(self) -> bool:
        return self.expires is None or time.time() < self.expires


@dataclass(frozen=True)
class Webhook:
    id: str
    uri: str
    subscribed_events: tuple[str, ...]
    secrets: tuple[SigningSecret, ...]
    name: str | None = None
    state: str = "enabled"


class WebhookConfig(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    uris: tuple[str, ...] = ()
    user_metadata: Mapping[str, Any] | None = None


class Request(BaseModel):
    """The body of POST /interactions; what the simulator does not know it only keeps."""

    model_config = ConfigDict(frozen=True, extra="allow")

    input: str | Mapping[str, Any] | tuple[Mapping[str, Any], ...] = Field(min_length=1)
    model: str | None = None
    agent: str | None = None
    background: bool = False
    previous_interaction_id: str | None = None
    webhook_config: WebhookConfig | None = None


@dataclass(frozen=True)
class Interaction:
    request: Request
    script: Script
    turn: int = 0
    id: str = field(default_factory=interaction_id)
    status: str = "in_progress"
    steps: tuple[Step, ...] = ()
    errors: tuple[Mapping[str, Any], ...] = ()
    created: str = field(default_factory=rfc3339)
    updated: str = field(default_factory=rfc3339)


class State:
    """Every value in here is frozen: a change puts a new one in its place."""

    def __init__(self, scripts: Sequence[Script], faults: Faults) -> None:
        self._lock = threading.RLock()
        self._webhooks: dict[str, Webhook] = {}
        self._interactions: dict[str, Interaction] = {}
        self._scripts = tuple(scripts)
        self.faults = faults

    @property
    def faults(self) -> Faults:
        return self._faults

    @faults.setter
    def faults(self, faults: Faults) -> None:
        with self._lock:
            self._faults = faults
            self.dice = Dice(faults)
            self._misses = Counter[str]()
            self._limited = 0

    @property
    def scripts(self) -> tuple[Script, ...]:
        return self._scripts

    @scripts.setter
    def scripts(self, scripts: Sequence[Script]) -> None:
        self._scripts = tuple(scripts)

    def limit_rate(self) -> None:
        with self._lock:
            if self._limited >= self._faults.rate_limit_first:
                return
            self._limited += 1
            raise Refusal(429, "Resource has been exhausted.", self._faults.retry_after)

    @property
    def webhooks(self) -> tuple[Webhook, ...]:
        with self._lock:
            return tuple(self._webhooks.values())

    def webhook(self, webhook_id: str) -> Webhook:
        with self._lock:
            if webhook := self._webhooks.get(webhook_id):
                return webhook
        raise not_found(f"Webhook {webhook_id}")

    def add_webhook(self, webhook: Webhook) -> None:
        with self._lock:
            self._webhooks[webhook.id] = webhook

    def change_webhook(self, webhook_id: str, **fields: Any) -> Webhook:
        with self._lock:
            changed = replace(self.webhook(webhook_id), **fields)
            self._webhooks[webhook_id] = changed
            return changed

    def remove_webhook(self, webhook_id: str) -> None:
        with self._lock:
            del self._webhooks[self.webhook(webhook_id).id]

    @property
    def interactions(self) -> tuple[Interaction, ...]:
        with self._lock:
            return tuple(self._interactions.values())

    def interaction(self, interaction_id: str) -> Interaction:
        with self._lock:
            if interaction := self._interactions.get(interaction_id):
                return interaction
        raise not_found(f"Interaction {interaction_id}")

    def look_at_interaction(self, interaction_id: str) -> Interaction:
        """As `interaction`, but the first looks may miss it: a fresh one takes time to show."""
        with self._lock:
            interaction = self.interaction(interaction_id)
            if self._misses[interaction_id] < self._faults.not_found_first:
                self._misses[interaction_id] += 1
                raise not_found(f"Interaction {interaction_id}")
            return interaction

    def add_interaction(self, interaction: Interaction) -> None:
        with self._lock:
            self._interactions[interaction.id] = interaction

    def finish_interaction(
        self, interaction_id: str, change: Callable[[Interaction], Interaction]
    ) -> Interaction | None:
        """Change it if it is still running: of a cancel and an end, one wins."""
        with self._lock:
            running = self._interactions.get(interaction_id)
            if running is None or running.status != "in_progress":
                return None
            finished = replace(change(running), updated=rfc3339())
            self._interactions[interaction_id] = finished
            return finished

    def remove_interaction(self, interaction_id: str) -> None:
        with self._lock:
            del self._interactions[self.interaction(interaction_id).id]
