"""Notes what an event says where nothing needs to be fetched."""

from collections.abc import Callable
from dataclasses import dataclass

import structlog

from gemhooks import events, heads
from gemhooks.errors import Gone, NotYet
from workers.hints import is_hint
from workers.ports import JobRecorder
from workers.sightings import Sighting

Look = Callable[[str, str], Sighting]  # kind, id; raises as an Observer does
LONGEST_MESSAGE = 300  # characters
log = structlog.get_logger()


@dataclass(frozen=True)
class EventRecorder:
    """Writes the state that an event reports to the jobs."""

    jobs: JobRecorder
    look: Look | None = None

    def record(self, event: events.Event) -> None:
        """Believe the event; of a hint only what Gemini says too, and its words, else NotYet."""
        kind, state = kind_and_state(event)
        code, message = self._confirmed(event) if is_hint() else _failure(event.data)
        self.jobs.record(
            kind,
            event.data.id,
            state,
            event_type=event.type,
            error_code=code,
            error_message=message,
            user_metadata=event.data.user_metadata or None,
        )
        log.info("event_recorded", kind=kind, id=event.data.id, state=state, error_code=code)

    def record_unreadable(self, event: events.Event, error: Gone | NotYet) -> None:
        """Believe the event where it is all there is; *error* where it is a hint or too early."""
        is_missing = isinstance(error, Gone) or error.reason == "not_found"
        if is_hint() or not is_missing:
            raise error
        self.record(event)

    def _confirmed(self, event: events.Event) -> tuple[str, str]:
        kind, state = kind_and_state(event)
        if self.look is None:
            raise NotYet("not_found")
        sighting = self.look(kind, event.data.id)
        if sighting.state != state:
            raise NotYet(f"a hint says {state}, Gemini says {sighting.state}"[:120])
        return sighting.error_code, sighting.error_message


def kind_and_state(event: events.Event) -> tuple[str, str]:
    """``batch.succeeded`` is a batch that succeeded, and so is the older ``batch.completed``."""
    kind, _, state = event.canonical_type.partition(".")
    return kind, state or heads.UNKNOWN


def _failure(resource: events.Resource) -> tuple[str, str]:
    if not isinstance(resource, events.Failure):
        return "", ""
    code = "" if resource.error_code is None else str(resource.error_code)
    return code[:LONGEST_MESSAGE], (resource.error_message or "")[:LONGEST_MESSAGE]
