"""Notes what an event says where nothing needs to be fetched."""

from dataclasses import dataclass

import structlog

from gemhooks import events
from workers.ports import JobRecorder

LONGEST_MESSAGE = 300  # characters
log = structlog.get_logger()


@dataclass(frozen=True)
class EventRecorder:
    """Writes the state that an event reports to the jobs."""

    jobs: JobRecorder

    def record(self, event: events.Event) -> None:
        kind, state = kind_and_state(event)
        code, message = _failure(event.data)
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


def kind_and_state(event: events.Event) -> tuple[str, str]:
    """``batch.succeeded`` is a batch that succeeded, and so is the older ``batch.completed``."""
    kind, _, state = event.canonical_type.partition(".")
    return kind, state or events.UNKNOWN


def _failure(resource: events.Resource) -> tuple[str, str]:
    if not isinstance(resource, events.Failure):
        return "", ""
    code = "" if resource.error_code is None else str(resource.error_code)
    return code[:LONGEST_MESSAGE], (resource.error_message or "")[:LONGEST_MESSAGE]
