"""Sends signed webhooks, again and again until one gets through."""

import base64
import json
import secrets
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import urllib3

from gemhooks import signing
from gemhooks.simulator.clock import unix_time
from gemhooks.simulator.faults import Copy, Dice, Kind
from gemhooks.simulator.schedule import Schedule

MOST_ATTEMPTS = 100_000  # remembered; older ones are forgotten
LONGEST_PAUSE = 60.0  # seconds between two attempts


@dataclass(frozen=True)
class Target:
    """Where a delivery goes; without a webhook's id it came from a `webhook_config`."""

    uri: str
    webhook_id: str | None = None


@dataclass(frozen=True)
class Delivery:
    id: str
    type: str
    body: bytes
    target: Target
    kind: Kind
    attempt: int = 1


@dataclass(frozen=True)
class Attempt:
    """One request that was made, or was lost on purpose; no status means no answer."""

    id: str
    type: str
    uri: str
    kind: Kind
    attempt: int
    status: int | None
    at: float


@dataclass(frozen=True)
class Patience:
    """How long a delivery is tried; `retry_base` compresses Gemini's 24 hours."""

    retry_base: float = 0.5
    attempts: int = 10
    timeout: float = 5.0

    def pause(self, attempt: int) -> float:
        return min(self.retry_base * 2.0 ** (attempt - 1), LONGEST_PAUSE)


class Deliveries:
    def __init__(
        self,
        schedule: Schedule,
        dice: Callable[[], Dice],
        secrets_of: Callable[[Target], Sequence[bytes]],
        patience: Patience,
    ) -> None:
        self._schedule = schedule
        self._dice = dice
        self._secrets_of = secrets_of
        self._patience = patience
        self._http = urllib3.PoolManager(maxsize=8)
        self._changed = threading.Condition()
        self._attempts: deque[Attempt] = deque(maxlen=MOST_ATTEMPTS)

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        with self._changed:
            return tuple(self._attempts)

    def wait(self, enough: Callable[[Sequence[Attempt]], bool], timeout: float) -> bool:
        """Whether the attempts were *enough* before *timeout* seconds passed."""
        with self._changed:
            return self._changed.wait_for(lambda: enough(self._attempts), timeout)

    def close(self) -> None:
        self._http.clear()

    def send(self, event_type: str, event: Mapping[str, Any], targets: Iterable[Target]) -> str:
        """One event, one id, however many targets, copies and attempts."""
        webhook_id = f"msg_{uuid.uuid4()}"
        body = json.dumps(event, separators=(",", ":")).encode()
        for target in targets:
            for copy in self._dice().copies():
                self._plan(Delivery(webhook_id, event_type, body, target, copy.kind), copy)
        return webhook_id

    def _plan(self, delivery: Delivery, copy: Copy) -> None:
        if delivery.kind is Kind.LOST:
            self._record(delivery, None)
        else:
            self._schedule.after(copy.delay, lambda: self._try(delivery))

    def _try(self, delivery: Delivery) -> None:
        keys = self._secrets_of(delivery.target)
        if not keys:  # the webhook was deleted meanwhile
            return
        status = self._post(delivery, keys)
        self._record(delivery, status)
        if not is_success(status):
            self._try_later(delivery)

    def _try_later(self, delivery: Delivery) -> None:
        # A forger gets no second chance: its 401 is the right answer.
        if delivery.kind is Kind.FORGED or delivery.attempt >= self._patience.attempts:
            return
        again = replace(delivery, attempt=delivery.attempt + 1)
        self._schedule.after(self._patience.pause(delivery.attempt), lambda: self._try(again))

    def _post(self, delivery: Delivery, keys: Sequence[bytes]) -> int | None:
        try:
            return self._http.request(
                "POST",
                delivery.target.uri,
                body=delivery.body,
                headers=headers(delivery, keys),
                timeout=self._patience.timeout,
                retries=False,  # each attempt is ours to count
                redirect=False,  # Standard Webhooks: a 3xx is a failure
            ).status
        except urllib3.exceptions.HTTPError:
            return None

    def _record(self, delivery: Delivery, status: int | None) -> None:
        uri, kind, number = delivery.target.uri, delivery.kind, delivery.attempt
        attempt = Attempt(delivery.id, delivery.type, uri, kind, number, status, time.time())
        with self._changed:
            self._attempts.append(attempt)
            self._changed.notify_all()


def is_success(status: int | None) -> bool:
    return status is not None and 200 <= status < 300  # noqa: PLR2004 - any 2xx


def headers(delivery: Delivery, keys: Sequence[bytes]) -> dict[str, str]:
    timestamp = unix_time()  # of this attempt, not of the event
    used = [secrets.token_bytes(32)] if delivery.kind is Kind.FORGED else keys
    signatures = (signing.sign_v1(delivery.id, timestamp, delivery.body, key) for key in used)
    return {
        "content-type": "application/json",
        "webhook-id": delivery.id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(signatures),
    }


def new_secret() -> str:
    return "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()
