"""What Gemini says of a job, in the words of its events; any field may be null, absent or odd."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from gemhooks.heads import UNKNOWN
from workers import answers, samples
from workers.answers import fields

RUNNING = "running"
REQUIRES_ACTION = "requires_action"
INTERACTION_ENDS = ("completed", "failed", "cancelled", "incomplete", "budget_exceeded")
BATCH_ENDS = {
    "succeeded": "succeeded",
    "partially_succeeded": "succeeded",  # there is a result to fetch; its rows tell
    "failed": "failed",
    "cancelled": "cancelled",
    "expired": "expired",
}
LONGEST_WORD = 60  # characters
LONGEST_MESSAGE = 300


@dataclass(frozen=True, slots=True)
class Sighting:
    """A job at this moment; *has_ended* says that no other state will follow."""

    state: str
    has_ended: bool = False
    error_code: str = ""
    error_message: str = ""
    user_metadata: dict[str, Any] = field(default_factory=dict)
    pointers: dict[str, str] = field(default_factory=dict)  # to the result, as an event has them
    changed_at: float | None = None  # Unix seconds

    @property
    def has_event(self) -> bool:
        return self.has_ended or self.state == REQUIRES_ACTION


def of_interaction(interaction: dict[str, Any]) -> Sighting:
    status = _word(interaction.get("status"))
    code, message = answers.failure(interaction)
    return Sighting(
        state=status,
        has_ended=status in INTERACTION_ENDS,
        error_code=code,
        error_message=message,
        user_metadata=answers.user_metadata(interaction),
        changed_at=_instant(interaction.get("updated")),
    )


def of_batch(batch: dict[str, Any]) -> Sighting:
    """A batch: its state has either prefix, and lies at either level."""
    metadata = fields(batch.get("metadata"))
    told = _word(metadata.get("state") or batch.get("state")).rpartition("state_")[2]
    state = BATCH_ENDS.get(told) or _end_of_operation(batch, "succeeded")
    code, message = _failure(batch)
    return Sighting(
        state=state or told,
        has_ended=state is not None,
        error_code=code,
        error_message=message,
        pointers=_file_of(batch, metadata),
        changed_at=_instant(metadata.get("endTime") or metadata.get("updateTime")),
    )


def of_video(operation: dict[str, Any]) -> Sighting:
    """A video: generated, failed, or filtered until nothing was left, which is a failure too."""
    code, message = _failure(operation)
    made = samples.of_operation(operation)
    uri = next((each.uri for each in made if each.uri), "")
    state = _end_of_operation(operation, "generated" if made else "failed")
    if state == "failed" and not code:
        code, message = "no_video", message or samples.filtered(operation)[:LONGEST_MESSAGE]
    return Sighting(
        state=state or RUNNING,
        has_ended=state is not None,
        error_code=code,
        error_message=message,
        pointers={"output_file_uri": uri} if uri else {},
    )


def _end_of_operation(operation: dict[str, Any], success: str) -> str | None:
    """What a long-running operation that is done has come to."""
    if operation.get("done") is not True:
        return None
    return "failed" if fields(operation.get("error")) else success


def _failure(operation: dict[str, Any]) -> tuple[str, str]:
    error = fields(operation.get("error"))
    code, message = error.get("code"), error.get("message")
    return (
        "" if code is None else str(code)[:LONGEST_WORD],
        message[:LONGEST_MESSAGE] if isinstance(message, str) else "",
    )


def _file_of(batch: dict[str, Any], metadata: dict[str, Any]) -> dict[str, str]:
    for place in (fields(metadata.get("output")), fields(batch.get("response"))):
        if isinstance(name := place.get("responsesFile"), str) and name:
            return {"output_file_uri": name}
    return {}


def _word(value: Any) -> str:
    """A state as an event would spell it; what is none is unknown."""
    return value.lower()[:LONGEST_WORD] if isinstance(value, str) and value else UNKNOWN


def _instant(text: Any) -> float | None:
    """RFC 3339 as Unix seconds."""
    try:
        return datetime.fromisoformat(text).timestamp() if isinstance(text, str) else None
    except (ValueError, OverflowError):
        return None
