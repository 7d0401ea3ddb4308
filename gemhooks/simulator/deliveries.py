"""Sends signed webhooks, again and again until one gets through."""

import json
import threading
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import urllib3

from gemhooks.simulator.clock import rfc3339, unix_time
from gemhooks.simulator.faults import Copy, Kind
from gemhooks.simulator.schedule import Schedule
from gemhooks.simulator.signatures import Delivery, Signer, Target
from gemhooks.simulator.state import State

MOST_ATTEMPTS = 100_000  # remembered; older ones are forgotten
LONGEST_PAUSE = 60.0  # seconds between two attempts
CONNECTIONS = 32  # kept open to each receiver
UNKNOWN_TYPE = "interaction.dreamt"


@dataclass(frozen=True, slots=True)
class Attempt:
    """One request that was made, or was lost on purpose; no status means no answer."""

    id: str
    type: str
    uri: str
    kind: Kind
    attempt: int
    status: int | None
    at: float
    resource_id: str = ""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a delivery is tried; `retry_base` compresses Gemini's 24 hours.

    A webhook is disabled after *disable_after* failed attempts in a row; 0: when one delivery
    has failed *attempts* times.
    """

    retry_base: float = 0.5
    attempts: int = 10
    timeout: float = 5.0
    disable_after: int = 0

    def pause(self, attempt: int) -> float:
        return min(self.retry_base * 2.0 ** (attempt - 1), LONGEST_PAUSE)


class Deliveries:
    def __init__(
        self, state: State, schedule: Schedule, signer: Signer, patience: Patience
    ) -> None:
        self._state = state
        self._schedule = schedule
        self._signer = signer
        self._patience = patience
        self._http = urllib3.PoolManager(maxsize=CONNECTIONS)
        self._changed = threading.Condition()
        self._attempts: deque[Attempt] = deque(maxlen=MOST_ATTEMPTS)
        self._counts = Counter[str]()
        self._failures = Counter[str]()  # in a row, by webhook

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        with self._changed:
            return tuple(self._attempts)

    @property
    def counts(self) -> Mapping[str, int]:
        """How many attempts there were of each kind and answer, forgotten ones included."""
        with self._changed:
            return dict(self._counts)

    def wait(self, enough: Callable[[Sequence[Attempt]], bool], timeout: float) -> bool:
        """Whether the attempts were *enough* before *timeout* seconds passed."""
        with self._changed:
            return self._changed.wait_for(lambda: enough(self._attempts), timeout)

    def close(self) -> None:
        self._http.clear()

    def send(
        self,
        event_type: str,
        event: Mapping[str, Any],
        targets: Iterable[Target],
        *,
        is_ping: bool = False,
    ) -> str:
        """One event, one id, however many targets, copies and attempts."""
        webhook_id = f"msg_{uuid.uuid4()}"
        body = json.dumps(event, separators=(",", ":")).encode()
        about = str((event.get("data") or event.get("interaction") or {}).get("id", ""))
        for target in targets:
            for copy in self._state.dice.copies():
                delivery = Delivery(
                    webhook_id, event_type, body, target, copy.kind, about, is_ping=is_ping
                )
                self._plan(delivery, copy)
        return webhook_id

    def _plan(self, delivery: Delivery, copy: Copy) -> None:
        delivery = disguised(delivery)
        if delivery.kind is Kind.LOST:
            self._record(delivery, None)
        else:
            self._schedule.after(copy.delay, lambda: self._try(delivery))

    def _try(self, delivery: Delivery) -> None:
        if not self._signer.takes(delivery):  # it was deleted or disabled meanwhile
            return
        status = self._post(delivery)
        self._record(delivery, status)
        self._note(delivery, is_success(status))
        if not is_success(status):
            self._try_later(delivery)

    def _try_later(self, delivery: Delivery) -> None:
        if delivery.kind.is_sent_again and delivery.attempt < self._patience.attempts:
            again = replace(delivery, attempt=delivery.attempt + 1)
            pause = self._patience.pause(delivery.attempt)
            self._schedule.after(pause, lambda: self._try(again))

    def _post(self, delivery: Delivery) -> int | None:
        try:
            return self._http.request(
                "POST",
                delivery.target.uri,
                body=delivery.body,
                headers=self._signer.headers(delivery, unix_time()),
                timeout=self._patience.timeout,
                retries=False,  # each attempt is ours to count
                redirect=False,  # Standard Webhooks: a 3xx is a failure
            ).status
        except urllib3.exceptions.HTTPError:
            return None

    def _record(self, delivery: Delivery, status: int | None) -> None:
        uri, kind, number = delivery.target.uri, delivery.kind, delivery.attempt
        attempt = Attempt(
            delivery.id, delivery.type, uri, kind, number, status, time.time(), delivery.resource_id
        )
        with self._changed:
            self._attempts.append(attempt)
            self._counts[f"{kind} {status or 'no answer'}"] += 1
            self._changed.notify_all()

    def _note(self, delivery: Delivery, success: bool) -> None:  # noqa: FBT001 - its whole point
        """Count failures in a row, and disable the webhook that has too many."""
        webhook_id, patience = delivery.target.webhook_id, self._patience
        if webhook_id is None or not delivery.kind.is_sent_again:
            return
        with self._changed:
            failures = 0 if success else self._failures[webhook_id] + 1
            self._failures[webhook_id] = failures
        gives_up = not success and delivery.attempt >= patience.attempts
        if gives_up or 0 < patience.disable_after <= failures:
            self._failures.pop(webhook_id, None)
            self._state.disable_webhook(webhook_id)


def is_success(status: int | None) -> bool:
    return status is not None and 200 <= status < 300  # noqa: PLR2004 - any 2xx


def disguised(delivery: Delivery) -> Delivery:
    """An event that nobody knows, or a body that is no event, has an id of its own."""
    if delivery.kind is Kind.UNKNOWN:
        event = {"type": UNKNOWN_TYPE, "version": "v1", "timestamp": rfc3339(), "data": {}}
        body = json.dumps(event).encode()
        return replace(delivery, id=f"msg_{uuid.uuid4()}", type=UNKNOWN_TYPE, body=body)
    if delivery.kind is Kind.MALFORMED:
        body = delivery.body[: len(delivery.body) // 2]
        return replace(delivery, id=f"msg_{uuid.uuid4()}", body=body)
    return delivery
