"""All that the simulator remembers, in memory and bounded."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from gemhooks.simulator.batch import Batch
from gemhooks.simulator.clock import interaction_id, rfc3339
from gemhooks.simulator.faults import Dice, Faults
from gemhooks.simulator.files import Files
from gemhooks.simulator.plans import Plans
from gemhooks.simulator.refusals import Refusal, not_found
from gemhooks.simulator.rulebook import Rulebook
from gemhooks.simulator.scripts import Script, Turn
from gemhooks.simulator.shelf import Shelf
from gemhooks.simulator.variants import Variants
from gemhooks.simulator.video import Video
from gemhooks.simulator.webhook_config import WebhookConfig

Step = Mapping[str, Any]
T = TypeVar("T")

# Of each kind, the oldest make room for the newest. The others weigh what their requests do.
MOST_WEBHOOKS = 1_000
LIGHTEST, HEAVIEST = 4 << 10, 256 << 20  # bytes


@dataclass(frozen=True, slots=True)
class SigningSecret:
    text: str = field(repr=False)
    expires: float | None = None  # seconds since 1970

    @property
    def alive(self) -> bool:
        return self.expires is None or time.time() < self.expires


@dataclass(frozen=True, slots=True)
class Webhook:
    id: str
    uri: str
    subscribed_events: tuple[str, ...]
    secrets: tuple[SigningSecret, ...]
    name: str | None = None
    state: str = "enabled"
    created: str = field(default_factory=rfc3339)
    updated: str = field(default_factory=rfc3339)


class Request(BaseModel):
    """The body of POST /interactions; what the simulator does not know it only keeps."""

    model_config = ConfigDict(frozen=True, extra="allow")

    input: str | Mapping[str, Any] | tuple[Mapping[str, Any], ...] = Field(min_length=1)
    model: str | None = None
    agent: str | None = None
    background: bool = False
    stream: bool = False
    store: bool = True
    previous_interaction_id: str | None = None
    webhook_config: WebhookConfig | None = None


@dataclass(frozen=True, slots=True)
class Interaction:
    request: Request
    script: Script
    turn: int = 0
    id: str = field(default_factory=interaction_id)
    status: str = "in_progress"
    is_open: bool = True
    steps: tuple[Step, ...] = ()
    errors: tuple[Mapping[str, Any], ...] = ()
    extra_events: tuple[Mapping[str, Any], ...] = ()
    created: str = field(default_factory=rfc3339)
    updated: str = field(default_factory=rfc3339)

    @property
    def turn_played(self) -> Turn:
        return self.script.turn(self.turn)


class State:
    """All resources, and how the simulator was told to behave."""

    def __init__(
        self,
        *,
        scripts: Sequence[Script],
        plans: Plans,
        variants: Variants,
        faults: Faults,
    ) -> None:
        self.webhooks = Shelf[Webhook]("Webhook", MOST_WEBHOOKS)
        self.interactions = Shelf[Interaction]("Interaction", HEAVIEST, lightest=LIGHTEST)
        self.batches = Shelf[Batch]("Batch", HEAVIEST, lightest=LIGHTEST)
        self.videos = Shelf[Video]("Operation", HEAVIEST, lightest=LIGHTEST)
        self.files = Files()
        self.scripts = tuple(scripts)
        self.plans = plans
        self.variants = variants
        self.url = ""  # where it listens, once it does
        self.closing = threading.Event()
        self._lock = threading.Lock()
        self.faults = faults

    @property
    def base_uri(self) -> str:
        """What the URIs that are shown begin with."""
        return self.variants.base_uri or self.url

    @property
    def faults(self) -> Faults:
        return self._faults

    @faults.setter
    def faults(self, faults: Faults) -> None:
        with self._lock:
            self._faults = faults
            self.dice = Dice(faults)
            self.rulebook = Rulebook(faults.rules, faults.seed)
            self._misses = Counter[str]()
            self._first_seen: dict[str, float] = {}
            self._limited = 0

    def disable_webhook(self, webhook_id: str) -> None:
        """As Gemini does with a webhook whose deliveries fail."""
        with suppress(Refusal):  # deleted meanwhile
            self.webhooks.change(webhook_id, _disabled)

    def limit_rate(self) -> None:
        with self._lock:
            if self._limited >= self._faults.rate_limit_first:
                return
            self._limited += 1
            raise Refusal(429, "Resource has been exhausted.", self._faults.retry_after)

    def seen(self, key: str, shelf: Shelf[T]) -> T:
        """The resource, but the first looks may miss it: a fresh one takes time to show."""
        value = shelf.get(key)
        with self._lock:
            if self._is_shown(key):
                return value
            self._misses[key] += 1
        raise not_found(f"Resource {key}")

    def _is_shown(self, key: str) -> bool:
        if self._misses[key] < self._faults.not_found_first:
            return False
        if not self._faults.not_found_for:
            return True
        first_seen = self._first_seen.setdefault(key, time.monotonic())
        return time.monotonic() - first_seen >= self._faults.not_found_for

    def finish_interaction(
        self, interaction_id: str, change: Callable[[Interaction], Interaction]
    ) -> Interaction | None:
        """Change it if it is still running: of a cancel and an end, one wins."""
        changed: list[Interaction] = []

        def once(running: Interaction) -> Interaction:
            if not running.is_open:
                return running
            changed.append(replace(change(running), is_open=False, updated=rfc3339()))
            return changed[0]

        with suppress(Refusal):  # deleted meanwhile
            self.interactions.change(interaction_id, once)
        return changed[0] if changed else None


def _disabled(webhook: Webhook) -> Webhook:
    if webhook.state != "enabled":
        return webhook
    return replace(webhook, state="disabled_due_to_failed_deliveries", updated=rfc3339())
