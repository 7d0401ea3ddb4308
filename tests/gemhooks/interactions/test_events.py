from typing import Any

import pytest
from google.genai import interactions as official
from pydantic import TypeAdapter

from gemhooks.interactions import Failure, StatusUpdate, StepDelta, StepStart, Unknown, parse
from gemhooks.interactions.events import KINDS
from tests.gemhooks.interactions.samples import CONTENTS, DELTAS, EXAMPLES, ID, STEPS

Json = dict[str, Any]


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_of_the_reference_comes_back_as_it_was_sent(example: Json) -> None:
    event = parse(example)

    assert type(event) is KINDS[example["event_type"]]
    assert event.to_json() == example


def test_the_examples_are_of_all_seven_kinds() -> None:
    assert {example["event_type"] for example in EXAMPLES} == set(KINDS)
    assert len(EXAMPLES) == 9


@pytest.mark.parametrize("step", STEPS)
def test_every_step_comes_back_as_it_was_sent(step: Json) -> None:
    event = parse({"event_type": "step.start", "index": 0, "step": step})

    assert isinstance(event, StepStart)
    assert event.to_json()["step"] == step


@pytest.mark.parametrize("delta", DELTAS)
def test_every_delta_comes_back_as_it_was_sent(delta: Json) -> None:
    event = parse({"event_type": "step.delta", "index": 0, "delta": delta})

    assert isinstance(event, StepDelta)
    assert event.to_json()["delta"] == delta


@pytest.mark.parametrize(
    ("kind", "samples"),
    [(official.Step, STEPS), (official.StepDeltaData, DELTAS), (official.Content, CONTENTS)],
    ids=["steps", "deltas", "contents"],
)
def test_our_samples_are_what_the_official_client_reads(kind: Any, samples: list[Json]) -> None:
    adapter = TypeAdapter[Any](kind)

    for sample in samples:
        read = adapter.validate_python(sample)
        is_new = sample["type"].startswith("brand_new")
        assert getattr(read, "is_unknown", False) == is_new, sample["type"]
        assert adapter.dump_python(read, exclude_none=True) == sample


def test_the_samples_are_of_every_kind_that_the_official_client_knows() -> None:
    from google.genai._gaos.types.interactions import content, step, stepdeltadata  # noqa: PLC0415

    known = (
        (step._STEP_VARIANTS, STEPS),  # noqa: SLF001
        (stepdeltadata._STEP_DELTA_DATA_VARIANTS, DELTAS),  # noqa: SLF001
        (content._CONTENT_VARIANTS, CONTENTS),  # noqa: SLF001
    )
    for variants, samples in known:
        assert set(variants) <= {sample["type"] for sample in samples}


@pytest.mark.parametrize(
    "given",
    [
        {"error": {"code": "x", "message": "y"}},
        {"interaction": {"id": ID}},
        {"index": 0},
        {},
        {"event_type": None, "error": {}},
        {"event_type": 7},
        {"type": "text"},
    ],
)
def test_an_event_that_does_not_say_what_it_is_is_unknown_and_no_error(given: Json) -> None:
    assert type(parse(given)) is Unknown


def test_the_name_of_the_frame_stands_in_for_a_missing_event_type() -> None:
    event = parse({"index": 0, "delta": {"type": "text", "text": "x"}}, name="step.delta")

    assert isinstance(event, StepDelta)


def test_an_older_type_stands_in_for_a_missing_event_type() -> None:
    assert isinstance(parse({"type": "error", "error": {"code": "x"}}), Failure)


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ({"event_type": "interaction.requires_action", "interaction_id": ID}, "requires_action"),
        ({"event_type": "interaction.in_progress", "interaction": {"id": ID}}, "in_progress"),
        (
            {"event_type": "interaction.status_update", "interaction": {"id": ID, "status": "new"}},
            "new",
        ),
        ({"event_type": "interaction.failed", "interaction": None}, "failed"),
    ],
)
def test_a_status_is_read_from_wherever_a_service_puts_it(given: Json, status: str) -> None:
    event = parse(given)

    assert isinstance(event, StatusUpdate)
    assert event.status == status


@pytest.mark.parametrize(
    "given",
    [
        {"event_type": "step.start", "index": 0},
        {"event_type": "step.delta", "index": "x", "delta": {}},
        {"event_type": "interaction.created", "interaction": None, "event_id": "7"},
        {"event_type": "interaction.status_update", "status": 7},
        {"event_type": "error", "error": "text", "metadata": []},
        {"event_type": "brand.new", "x": 1, "event_id": 9},
    ],
)
def test_a_known_kind_of_an_odd_shape_is_kept_as_unknown(given: Json) -> None:
    event = parse(given)

    assert type(event) is Unknown
    assert event.event_type == given["event_type"]


@pytest.mark.parametrize("given", [None, [], "text", 7, [{}]])
def test_what_is_no_object_is_unknown(given: Any) -> None:
    assert type(parse(given)) is Unknown


def test_the_id_of_an_odd_event_still_resumes_the_stream() -> None:
    assert parse({"event_type": "step.start", "event_id": "7"}).event_id == "7"
