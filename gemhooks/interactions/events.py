"""What an interaction's stream says: the reference's seven kinds, and whatever else comes.

Source: InteractionSseEvent in the Interactions API reference. Steps and deltas stay JSON objects,
to be matched as such: ``case StepDelta(delta={"type": "text", "text": text})``.
"""

from typing import Any, ClassVar

from pydantic import BaseModel, ValidationError, model_validator

LIFECYCLE = "interaction."
UNKNOWN = "unknown"


class InteractionEvent(BaseModel, frozen=True, extra="allow"):
    """Any event. Fields that the reference does not name are kept."""

    kind: ClassVar[str] = ""

    event_type: str
    event_id: str | None = None  # resumes the stream after this event; not every event has one
    metadata: dict[str, Any] | None = None

    @property
    def total_usage(self) -> dict[str, Any] | None:
        """Tokens so far, on those events that carry them."""
        usage = (self.metadata or {}).get("total_usage")
        return usage if isinstance(usage, dict) else None

    def to_json(self) -> dict[str, Any]:
        """The object as it was sent."""
        return self.model_dump(exclude_unset=True)


class Created(InteractionEvent, frozen=True):
    """The first: what is known of the interaction at its start."""

    kind: ClassVar[str] = "interaction.created"
    interaction: dict[str, Any]


class Completed(InteractionEvent, frozen=True):
    """The last, however it ended: see the interaction's status."""

    kind: ClassVar[str] = "interaction.completed"
    interaction: dict[str, Any]


class StatusUpdate(InteractionEvent, frozen=True):
    """A new status. Some services send ``interaction.<status>`` in its stead."""

    kind: ClassVar[str] = "interaction.status_update"
    interaction_id: str = ""
    status: str

    @model_validator(mode="before")
    @classmethod
    def _gather(cls, given: Any) -> Any:
        """Take the status from wherever this variant has it."""
        inner = given.get("interaction")
        inner = inner if isinstance(inner, dict) else {}
        filled = dict(given)
        if "status" not in given:
            named = given["event_type"].removeprefix(LIFECYCLE)
            filled["status"] = inner.get("status", named)
        if "interaction_id" not in given and isinstance(inner.get("id"), str):
            filled["interaction_id"] = inner["id"]
        return filled


class StepStart(InteractionEvent, frozen=True):
    """A step begins; its content follows in deltas."""

    kind: ClassVar[str] = "step.start"
    index: int
    step: dict[str, Any]


class StepDelta(InteractionEvent, frozen=True):
    """A piece of a step."""

    kind: ClassVar[str] = "step.delta"
    index: int
    delta: dict[str, Any]


class StepStop(InteractionEvent, frozen=True):
    """A step is whole."""

    kind: ClassVar[str] = "step.stop"
    index: int


class Failure(InteractionEvent, frozen=True):
    """The stream says that something failed: ``error`` has a code and a message."""

    kind: ClassVar[str] = "error"
    error: dict[str, Any] = {}


class Unknown(InteractionEvent, frozen=True):
    """A kind that this release does not know, or a known one of a shape that it does not."""


KINDS: dict[str, type[InteractionEvent]] = {
    each.kind: each
    for each in (Created, Completed, StatusUpdate, StepStart, StepDelta, StepStop, Failure)
}


def parse(given: Any, *, name: str = "") -> InteractionEvent:
    """Read one event; *name* is what the stream's framing calls it, if it does.

    Whatever is not understood comes back as Unknown, and an event that does not say what it is
    never as a Failure.
    """
    if not isinstance(given, dict):
        return Unknown(event_type=name or UNKNOWN, metadata={"data": given})
    kind = _kind(given, name)
    model = KINDS.get(kind) or (StatusUpdate if kind.startswith(LIFECYCLE) else Unknown)
    try:
        return model.model_validate({**given, "event_type": kind})
    except ValidationError:
        return _odd(kind, given)


def _kind(given: dict[str, Any], name: str) -> str:
    """``event_type``; where it is missing, the framing's name or an older ``type``."""
    if isinstance(given.get("event_type"), str):
        return str(given["event_type"])
    older = given.get("type")
    return name or (older if isinstance(older, str) and older in KINDS else UNKNOWN)


def _odd(kind: str, given: dict[str, Any]) -> Unknown:
    event_id, metadata = given.get("event_id"), given.get("metadata")
    readable = {
        "event_type": kind,
        "event_id": event_id if isinstance(event_id, str) else None,
        "metadata": metadata if isinstance(metadata, dict) else None,
    }
    return Unknown.model_validate({**given, **readable})
