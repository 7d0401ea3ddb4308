from typing import Any

import orjson
import pytest

from gemhooks import events
from workers.records import EventRecorder


class LastJob:
    """Keeps the last that was recorded."""

    def __init__(self) -> None:
        self.row: tuple[Any, ...] = ()

    def record(
        self,
        kind: str,
        id: str,  # noqa: A002 - the protocol's name
        state: str,
        *,
        event_type: str = "",
        error_code: str = "",
        error_message: str = "",
        user_metadata: dict[str, Any] | None = None,
    ) -> None:
        self.row = (kind, id, state, event_type, error_code, error_message, user_metadata)


def recorded(event_type: str, **resource: Any) -> tuple[Any, ...]:
    jobs = LastJob()
    body = orjson.dumps({"type": event_type, "data": {"id": "r1", **resource}})
    EventRecorder(jobs).record(events.parse(body))
    return jobs.row


@pytest.mark.parametrize(
    ("event_type", "kind", "state"),
    [
        ("interaction.failed", "interaction", "failed"),
        ("interaction.cancelled", "interaction", "cancelled"),
        ("interaction.requires_action", "interaction", "requires_action"),
        ("batch.succeeded", "batch", "succeeded"),
        ("batch.completed", "batch", "succeeded"),
        ("batch.failed", "batch", "failed"),
        ("batch.expired", "batch", "expired"),
        ("batch.cancelled", "batch", "cancelled"),
        ("video.generated", "video", "generated"),
        ("batch.brand_new", "batch", "brand_new"),
        ("video.failed", "video", "failed"),
        ("interaction.budget_exceeded", "interaction", "budget_exceeded"),
        ("interaction.brand_new", "interaction", "brand_new"),
        ("odd", "odd", "unknown"),
    ],
)
def test_the_state_is_what_the_event_says(event_type: str, kind: str, state: str) -> None:
    assert recorded(event_type) == (kind, "r1", state, event_type, "", "", None)


def test_a_failure_is_recorded_with_its_reason_bounded() -> None:
    row = recorded("batch.failed", error_code=3, error_message="x" * 900, user_metadata={"a": 1})

    assert row[4:] == ("3", "x" * 300, {"a": 1})
