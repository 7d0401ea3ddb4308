"""What the results exchange is told, and under which id."""

import time
from datetime import UTC, datetime
from typing import Any, Protocol

from gemhooks import events, heads, jsontext
from gemhooks.messages import Message


class ResultIndex(Protocol):
    """The memory of what was stored where."""

    def record(self, kind: str, id: str, url: str, size: int, /) -> None:  # noqa: A002
        """Note a stored file; LedgerUnavailable while the database is away."""
        ...


def told(event: events.Event, name: str, data: dict[str, Any], *, key: str = "") -> Message:
    """The message *name* about the resource of *event*.

    Its id is the same at every attempt, so that a second one is known as a copy.
    """
    when = event.timestamp or datetime.now(UTC).isoformat().replace("+00:00", "Z")
    resource = heads.bare_id(event.data.id)
    body = jsontext.dumps({"type": name, "version": "1", "timestamp": when, "data": data})
    return Message(
        id=f"{resource}/{name}/{key}" if key else f"{resource}/{name}",
        type=name,
        body=body,
        timestamp=int(time.time()),
        time=when,
        traceparent=str(event.data.user_metadata.get("traceparent", ""))[:255],
    )
