"""Fetches the interaction that an event says has ended."""

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import structlog

from gemhooks import events, heads, jsontext
from gemhooks.errors import Gone, NotYet
from gemhooks.functions.resuming import look_again
from gemhooks.gemini import FetchedInteraction
from gemhooks.interactions import Summary, summarise
from gemhooks.messages import CONFIRM_TIMEOUT, Message, Publisher
from gemhooks.metrics import ResultMetrics
from workers import answers
from workers.announcing import announce
from workers.chains import Chains
from workers.ports import InteractionReader, JobRecorder, Results
from workers.records import EventRecorder, kind_and_state
from workers.sightings import INTERACTION_ENDS, REQUIRES_ACTION
from workers.telling import ResultIndex

if TYPE_CHECKING:
    from workers.conversations import ConversationTeller

WAITING = ("in_progress", "queued")
SETTLED = (*INTERACTION_ENDS, REQUIRES_ACTION)
# Every other status, known or not, is kept for a person to see, never taken for success, and asked
# for again: it may still change.
KNOWN = (*SETTLED, "requires_continuation", "idle")
log = structlog.get_logger()


@dataclass(frozen=True)
class InteractionFetcher:
    """Stores interactions, however they ended; of completed ones the results exchange is told."""

    gemini: InteractionReader
    results: Results
    publisher: Publisher
    jobs: JobRecorder
    metrics: ResultMetrics
    publish_timeout: float = CONFIRM_TIMEOUT
    conversations: "ConversationTeller | None" = None
    index: ResultIndex | None = None
    chains: Chains | None = None

    def fetch(self, event: events.InteractionEvent) -> None:
        began = time.monotonic()
        interaction_id = heads.bare_id(event.data.id)
        fetched = self.gemini.get(interaction_id)
        if self.chains is not None:
            self.chains.notice(interaction_id, answers.user_metadata(fetched.parsed))
        status = fetched.parsed.get("status")
        if status in WAITING:  # the event was ahead of what can be read
            raise NotYet(f"the interaction is still {status}")
        summary = summarise(fetched.parsed)
        urls = self._store(interaction_id, fetched, summary)
        if status not in SETTLED:
            self._leave_open(event, fetched, status)
            return
        if status == "completed":
            self._announce(_fetched_message(event, fetched, summary, urls))
        elif status == REQUIRES_ACTION and not _tells_of_calls(event):
            # The functions worker's; the event that it waits for may be late.
            self._announce(look_again(interaction_id, by="interactions"))
        if self.conversations is not None:
            self.conversations.tell(event, fetched)
        self._record(event, fetched, status)
        self._count(summary, len(fetched.raw), time.monotonic() - began)

    def fetch_if_readable(self, event: events.InteractionEvent) -> None:
        """As :meth:`fetch`, for ends of which the event may be all there is."""
        try:
            self.fetch(event)
        except (Gone, NotYet) as error:
            EventRecorder(self.jobs).record_unreadable(event, error)

    def _store(
        self, interaction_id: str, fetched: FetchedInteraction, summary: Summary
    ) -> tuple[str, str]:
        url = self.results.write("interactions", interaction_id, "json", fetched.raw)
        summary_url = self.results.write(
            "interactions", interaction_id, "summary.json", _json(summary)
        )
        if self.index is not None:
            self.index.record("interaction", interaction_id, url, len(fetched.raw))
        return url, summary_url

    def _leave_open(
        self, event: events.InteractionEvent, fetched: FetchedInteraction, status: Any
    ) -> None:
        """Note a status that is no end; NotYet, unless it is all that the event speaks of."""
        self._record(event, fetched, status)
        if status != kind_and_state(event)[1]:
            raise NotYet(f"the interaction is still {status!r}"[:120])

    def _count(self, summary: Summary, size: int, seconds: float) -> None:
        self.metrics.fetched("interaction", size, seconds)
        for each in summary.tokens:
            of = summary.model or summary.agent
            self.metrics.tokens(of, each.kind, each.modality, each.tokens)

    def _announce(self, message: Message) -> None:
        announce(self.publisher, [message], timeout=self.publish_timeout)

    def _record(
        self, event: events.InteractionEvent, fetched: FetchedInteraction, status: Any
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


def _tells_of_calls(event: events.InteractionEvent) -> bool:
    return isinstance(event, events.InteractionRequiresAction)


def _state(status: Any) -> str:
    return str(status) if status in KNOWN else heads.UNKNOWN


def _oddity(state: str, status: Any) -> str:
    return f"unknown status {status!r}"[:120] if state == heads.UNKNOWN else ""


def _metadata(event: events.Event, fetched: FetchedInteraction) -> dict[str, Any]:
    """Gemini's own answer first: a signature need not cover the event's body."""
    return answers.user_metadata(fetched.parsed) or event.data.user_metadata


def _json(summary: Summary) -> bytes:
    return summary.model_dump_json(indent=2).encode()


def _fetched_message(
    event: events.Event, fetched: FetchedInteraction, summary: Summary, urls: tuple[str, str]
) -> Message:
    """The same id for every attempt, so that a second one is known as a copy."""
    when = event.timestamp or datetime.now(UTC).isoformat().replace("+00:00", "Z")
    url, summary_url = urls
    data = {
        "id": event.data.id,
        "status": "completed",
        "result_url": url,
        "summary_url": summary_url,
        "text": answers.text(fetched.parsed),
        "total_tokens": summary.total_tokens,
        "model": summary.model,
        "user_metadata": _metadata(event, fetched),
    }
    body = jsontext.dumps(
        {"type": "interaction.fetched", "version": "1", "timestamp": when, "data": data}
    )
    return Message(
        id=f"{event.data.id}/interaction.fetched",
        type="interaction.fetched",
        body=body,
        timestamp=int(time.time()),
        time=when,
        traceparent=heads.head_of(body).traceparent,
    )
