"""What a body says of itself, read without the classes of :mod:`gemhooks.events`.

The receiver needs no more, and so no pydantic: docs/decisions/013.
"""

import re
from typing import Any, NamedTuple

from gemhooks import jsontext

UNKNOWN = "unknown"
FAMILIES = ("interaction", "batch", "video")
# Those of gemhooks.events, in its order: a test holds them to it.
TYPES = (
    "interaction.completed",
    "interaction.requires_action",
    "interaction.failed",
    "interaction.cancelled",
    "batch.succeeded",
    "batch.completed",
    "batch.failed",
    "batch.expired",
    "batch.cancelled",
    "video.generated",
    "interaction.fetched",
    "batch.fetched",
    "batch.row",
    "video.fetched",
    "interaction.waiting",
    "function.called",
    "conversation.message",
)
_PREFIX = re.compile(r"^(?:interactions/|batches/|(?:models/[^/]+/)?operations/)(?=.)", re.DOTALL)


def bare_id(resource_id: str) -> str:
    """*resource_id* without the prefix that some places write and others don't.

    >>> bare_id("batches/b1"), bare_id("models/veo/operations/o1"), bare_id("v1_x")
    ('b1', 'o1', 'v1_x')
    """
    return _PREFIX.sub("", resource_id)


def subject(event_type: str, resource_id: str) -> str:
    """What an event tells, whatever names it tells it by: the same text for every copy."""
    return f"{event_type}:{bare_id(resource_id)}"


def id_in(data: dict[str, Any]) -> Any:
    """The first of its names that holds a text."""
    for name in ("id", "name", "interaction_id"):
        found = data.get(name)
        if found and isinstance(found, str):
            return found
    return data.get("id")


def data_in(given: Any) -> dict[str, Any] | None:
    """What tells of the resource, in one dict of its own, wherever it stands."""
    if not isinstance(given, dict):
        return None
    data = given.get("data")
    data = given.get("interaction") if data is None else data
    if not isinstance(data, dict):
        return None
    nested = data.get("interaction")
    return {**nested, **data} if isinstance(nested, dict) else data.copy()


class Head(NamedTuple):
    """The little of a body that the receiver reads; all of it optional."""

    type: str = UNKNOWN
    time: str = ""
    traceparent: str = ""


def head_of(body: bytes) -> Head:
    """Read type, time and traceparent; a body of any shape gives at least Head("unknown").

    The receiver must not refuse a verified webhook for what is in it: Gemini disables
    endpoints that fail.
    """
    try:
        given = jsontext.loads(body)
    except (jsontext.Malformed, RecursionError):
        return Head()
    if not isinstance(given, dict):
        return Head()
    return Head(
        type=type_in(given) or UNKNOWN,
        time=_string(given.get("timestamp")),
        traceparent=_traceparent(given),
    )


def named_in(given: Any) -> tuple[str, str]:
    """The type and the bare id that *given* names, read as an event is; empty for what it lacks."""
    if not isinstance(given, dict):
        return "", ""
    found = id_in(data_in(given) or {})
    return type_in(given), bare_id(found) if isinstance(found, str) else ""


def named_by(body: bytes) -> tuple[str, str]:
    """The same of a body; nothing for one that is no event."""
    try:
        return named_in(jsontext.loads(body))
    except (jsontext.Malformed, RecursionError):
        return "", ""


def type_of(body: bytes) -> str:
    """The event type, or "unknown"."""
    return head_of(body).type


def type_in(given: dict[str, Any]) -> str:
    """What the receiver routes by and the worker acts on: one reading, so that they agree."""
    return _string(given.get("type")) or _string(given.get("event_type"))


def _string(value: Any) -> str:
    return value if isinstance(value, str) and len(value) <= 255 else ""  # noqa: PLR2004 - AMQP's shortstr


def _traceparent(given: dict[str, Any]) -> str:
    data = given.get("data")
    for place in (data, given):
        metadata = place.get("user_metadata") if isinstance(place, dict) else None
        if isinstance(metadata, dict):
            return _string(metadata.get("traceparent"))
    return ""
