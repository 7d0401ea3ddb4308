"""Fetches the interaction that a completed event points at."""

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson
import structlog

from gemhooks import events
from gemhooks.errors import NotYet
from gemhooks.functions.resuming import look_again
from gemhooks.gemini import FetchedInteraction
from gemhooks.messages import Message, Publisher
from workers import answers
from workers.announcing import PUBLISH_TIMEOUT, announce
from workers.conversations import ConversationTeller
from workers.ports import InteractionReader, JobRecorder, Results

WAITING = ("in_progress", "queued")
# Every other status, known or not, is kept for a person to see and never taken for success.
ENDED_OTHERWISE = (
    "failed",
    "cancelled",
    "incomplete",
    "budget_exceeded",
    "requires_action",
    "requires_continuation",
    "idle",
)
log = structlog.get_logger()


@dataclass(frozen=True)
class InteractionFetcher:
    """Stores completed interactions and tells the results exchange where they lie."""

    gemini: InteractionReader
    results: Results
    publisher: Publisher
    jobs: JobRecorder
    publish_timeout: float = PUBLISH_TIMEOUT
    conversations: ConversationTeller | None = None

    def fetch(self, event: events.InteractionCompleted) -> None:
        fetched = self.gemini.get(event.data.id)
        status = fetched.parsed.get("status")
        if status in WAITING:  # the event was ahead of what can be read
            raise NotYet(f"the interaction is still {status}")
        url = self.results.write("interactions", event.data.id, "json", fetched.raw)
        if status == "completed":
            self._announce(_fetched_message(event, fetched, url))
        elif status == "requires_action":  # the functions worker's; its own event may be late
            self._announce(look_again(event.data.id, by="interactions"))
        if self.conversations is not None:
            self.conversations.tell(event, fetched)
        self._record(event, fetched, status)

    def _announce(self, message: Message) -> None:
        announce(self.publisher, [message], timeout=self.publish_timeout)

    def _record(
        self, event: events.InteractionCompleted, fetched: FetchedInteraction, status: Any
    ) -> None:
        state = _state(status)
        code, message = answers.failure(fetched.parsed)
        self.jobs.record(
            "interaction",
            event.data.id,
            state,
            event_type=event.type,
            error_code=code,
            error_message=message or _oddity(state, status),
            user_metadata=_metadata(event, fetched) or None,
        )
        log.info("interaction_fetched", id=event.data.id, state=state, size=len(fetched.raw))


def _state(status: Any) -> str:
    known = isinstance(status, str) and (status == "completed" or status in ENDED_OTHERWISE)
    return str(status) if known else events.UNKNOWN


def _oddity(state: str, status: Any) -> str:
    return f"unknown status {status!r}"[:120] if state == events.UNKNOWN else ""


def _metadata(event: events.Event, fetched: FetchedInteraction) -> dict[str, Any]:
    """Gemini's own answer first: a signature need not cover the event's body."""
    return answers.user_metadata(fetched.parsed) or event.data.user_metadata


def _fetched_message(event: events.Event, fetched: FetchedInteraction, url: str) -> Message:
    """The same id for every attempt, so that a second one is known as a copy."""
    when = event.timestamp or datetime.now(UTC).isoformat().replace("+00:00", "Z")
    body = orjson.dumps(
        {
            "type": "interaction.fetched",
            "version": "1",
            "timestamp": when,
            "data": _data(event, fetched, url),
        }
    )
    return Message(
        id=f"{event.data.id}/interaction.fetched",
        type="interaction.fetched",
        body=body,
        timestamp=int(time.time()),
        time=when,
        traceparent=events.head_of(body).traceparent,
    )


def _data(event: events.Event, fetched: FetchedInteraction, url: str) -> dict[str, Any]:
    return {
        "id": event.data.id,
        "status": "completed",
        "result_url": url,
        "text": answers.text(fetched.parsed),
        "total_tokens": answers.total_tokens(fetched.parsed),
        "user_metadata": _metadata(event, fetched),
    }
