"""Events of every type and in every documented shape, made up."""

import itertools
import time
from collections.abc import Mapping
from typing import Any

import orjson

from gemhooks import events
from gemhooks.messages import Message

# What the guide's catalog puts into data, beside the id.
_FAILURE = {"error_code": 13, "error_message": "it broke"}
_DATA: dict[str, dict[str, Any]] = {
    "interaction.failed": _FAILURE,
    "batch.failed": _FAILURE,
    "batch.succeeded": {"output_file_uri": "files/batch-made-up"},
    "video.generated": {
        "output_file_uri": "https://generativelanguage.googleapis.com/v1beta/files/x:download",
        "file_name": "files/x",
    },
    "interaction.fetched": {"status": "completed", "text": "made up", "result_url": "memory:x"},
    "batch.fetched": {"status": "succeeded", "result_url": "memory:x", "ok": 1},
    "video.fetched": {"result_url": "memory:x", "content_type": "video/mp4"},
}
# Where readers of Gemini's webhooks have met the id, by name; the first is the documented one.
VARIANTS = ("data.id", "data.name", "data.interaction_id", "data.interaction.id", "interaction.id")
_numbers = itertools.count(1)


def body(
    event_type: str,
    *,
    id: str = "",  # noqa: A002 - Google's word
    user_metadata: Mapping[str, Any] | None = None,
    variant: str = VARIANTS[0],
    **data: Any,
) -> bytes:
    """The JSON of an event as Gemini sends it, or as a worker of ours publishes it.

    *data* replaces what the type usually has beside the id; *variant* is one of VARIANTS, and
    ValueError if it is not.
    """
    if variant not in VARIANTS:
        raise ValueError(f"{variant!r} is none of {', '.join(VARIANTS)}")
    given = {**_DATA.get(event_type, {}), **data}
    if user_metadata is not None:
        given["user_metadata"] = dict(user_metadata)
    place, *path = variant.split(".")
    inner: dict[str, Any] = {path[-1]: id or f"made-up-{next(_numbers)}"}
    for name in reversed(path[:-1]):
        inner = {name: inner}
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    envelope = {"type": event_type, "version": "v1", "timestamp": now}
    return orjson.dumps({**envelope, place: {**given, **inner}})


def event(event_type: str, **more: Any) -> events.Event:
    """The same, parsed: the class that a handler gets."""
    return events.parse(body(event_type, **more))


def message(event_type: str, *, attempt: int = 1, trust: str = "body", **more: Any) -> Message:
    """The same as a message from the queue; *attempt* 1 is the first try."""
    content = body(event_type, **more)
    name = f"msg_made-up-{next(_numbers)}"
    return Message(
        name, event_type, content, timestamp=int(time.time()), trust=trust, attempt=attempt
    )
