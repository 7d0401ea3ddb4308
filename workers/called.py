"""Tells the results exchange which functions were called, and how they ended."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from gemhooks import heads, jsontext, topology
from gemhooks.functions.records import CallRecord
from gemhooks.messages import CONFIRM_TIMEOUT, Message, Publisher, confirm

LONGEST_RESULT = 64 * 1024  # bytes of JSON that a message carries


@dataclass(frozen=True)
class CallAnnouncer:
    """Publishes ``function.called``; told twice, a call has the same id both times."""

    publisher: Publisher
    publish_timeout: float = CONFIRM_TIMEOUT

    def announce(self, records: Sequence[CallRecord], user_metadata: dict[str, Any]) -> None:
        """PublishFailed where one did not get through; the calls are recorded all the same."""
        futures = [
            self.publisher.publish(_message(each, user_metadata), exchange=topology.RESULTS)
            for each in records
        ]
        for future in futures:
            confirm(future, timeout=self.publish_timeout)


def _message(record: CallRecord, user_metadata: dict[str, Any]) -> Message:
    when = datetime.fromtimestamp(record.ended_at or record.created_at, UTC).isoformat()
    when = when.replace("+00:00", "Z")
    data = _data(record) | {"user_metadata": user_metadata}
    body = jsontext.dumps(
        {"type": "function.called", "version": "1", "timestamp": when, "data": data}
    )
    return Message(
        id=f"{record.interaction_id}/function.called/{record.call_id}",
        type="function.called",
        body=body,
        timestamp=int(time.time()),
        time=when,
        traceparent=heads.head_of(body).traceparent,
    )


def _data(record: CallRecord) -> dict[str, Any]:
    fits = len(jsontext.dumps(record.result)) <= LONGEST_RESULT
    return {
        "id": record.interaction_id,
        "call_id": record.call_id,
        "function": record.function,
        "outcome": record.outcome,
        "is_error": record.is_error,
        "result": record.result if fits else None,
        "result_url": record.result_url,
    }
