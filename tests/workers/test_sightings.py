"""What Gemini says of a job, in every shape that was documented or seen."""

from typing import Any

import pytest

from workers import sightings


@pytest.mark.parametrize(
    ("status", "state", "has_ended", "has_event"),
    [
        ("completed", "completed", True, True),
        ("failed", "failed", True, True),
        ("cancelled", "cancelled", True, True),
        ("incomplete", "incomplete", True, True),
        ("budget_exceeded", "budget_exceeded", True, True),
        ("requires_action", "requires_action", False, True),
        ("in_progress", "in_progress", False, False),
        ("queued", "queued", False, False),
        ("brand_new", "brand_new", False, False),
        (None, "unknown", False, False),
        ([], "unknown", False, False),
    ],
)
def test_an_interaction_ends_only_in_a_state_that_is_an_end(
    status: object, state: str, *, has_ended: bool, has_event: bool
) -> None:
    sighting = sightings.of_interaction({"id": "v1_x", "status": status})

    assert (sighting.state, sighting.has_ended, sighting.has_event) == (
        state,
        has_ended,
        has_event,
    )


def test_an_interaction_tells_its_error_its_metadata_and_its_time() -> None:
    sighting = sightings.of_interaction(
        {
            "status": "failed",
            "errors": [None, {"code": 13, "message": "broke"}],
            "webhook_config": {"user_metadata": {"job": "7"}},
            "updated": "2026-01-22T12:00:00Z",
        }
    )

    assert (sighting.error_code, sighting.error_message) == ("13", "broke")
    assert (sighting.user_metadata, sighting.changed_at) == ({"job": "7"}, 1769083200.0)


@pytest.mark.parametrize("prefix", ["BATCH_STATE_", "JOB_STATE_", ""])
@pytest.mark.parametrize(
    ("told", "state", "has_ended"),
    [
        ("SUCCEEDED", "succeeded", True),
        ("PARTIALLY_SUCCEEDED", "succeeded", True),
        ("FAILED", "failed", True),
        ("CANCELLED", "cancelled", True),
        ("EXPIRED", "expired", True),
        ("PENDING", "pending", False),
        ("RUNNING", "running", False),
        ("BRAND_NEW", "brand_new", False),
    ],
)
@pytest.mark.parametrize("nested", [True, False])
def test_a_batch_has_its_state_with_any_prefix_and_at_either_level(
    prefix: str, told: str, state: str, *, has_ended: bool, nested: bool
) -> None:
    place = {"state": prefix + told}
    sighting = sightings.of_batch({"metadata": place} if nested else place)

    assert (sighting.state, sighting.has_ended) == (state, has_ended)


@pytest.mark.parametrize(
    ("batch", "state"),
    [
        ({"done": True, "response": {"responsesFile": "files/batch-x"}}, "succeeded"),
        ({"done": True, "error": {"code": 3, "message": "bad"}}, "failed"),
        ({"done": False}, "unknown"),
        ({"metadata": None, "done": "true"}, "unknown"),
    ],
)
def test_a_batch_without_a_state_is_read_as_any_operation(
    batch: dict[str, Any], state: str
) -> None:
    assert sightings.of_batch(batch).state == state


def test_a_batch_points_at_its_file_and_tells_its_error_and_time() -> None:
    found = sightings.of_batch(
        {
            "metadata": {
                "state": "BATCH_STATE_SUCCEEDED",
                "endTime": "2026-01-22T12:00:00.5Z",
                "output": {"responsesFile": "files/batch-x"},
            }
        }
    )
    failed = sightings.of_batch({"done": True, "error": {"code": 3, "message": "x" * 999}})

    assert found.pointers == {"output_file_uri": "files/batch-x"}
    assert found.changed_at == 1769083200.5
    assert (failed.error_code, failed.error_message) == ("3", "x" * 300)


MADE = {"generateVideoResponse": {"generatedSamples": [None, {"video": {"uri": "https://x/v"}}]}}
FILTERED = {"generateVideoResponse": {"raiMediaFilteredReasons": ["not allowed"]}}


@pytest.mark.parametrize(
    ("operation", "state", "code"),
    [
        ({"name": "o"}, "running", ""),
        ({"done": True, "response": MADE}, "generated", ""),
        ({"done": True, "error": {"code": 8, "message": "no quota"}}, "failed", "8"),
        ({"done": True, "response": FILTERED}, "failed", "no_video"),
        ({"done": True, "response": None}, "failed", "no_video"),
        ({"done": True}, "failed", "no_video"),
    ],
)
def test_a_video_is_generated_only_if_there_is_one(
    operation: dict[str, Any], state: str, code: str
) -> None:
    sighting = sightings.of_video(operation)

    assert (sighting.state, sighting.error_code) == (state, code)
    assert bool(sighting.pointers) == (state == "generated")


@pytest.mark.parametrize("odd", [None, [], "", 5, True, {"state": {}}, {"endTime": "soon"}])
def test_odd_fields_never_raise(odd: Any) -> None:
    for read in (sightings.of_interaction, sightings.of_batch, sightings.of_video):
        read({"status": odd, "metadata": odd, "error": odd, "response": odd, "updated": odd})
        read({"done": True, "response": {"generateVideoResponse": odd}, "errors": odd})
