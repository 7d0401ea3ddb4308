"""Every documented payload, every variant seen in the wild, and what is nobody's event."""

import codecs
import json

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemhooks import events, heads, topology
from gemhooks.errors import Undecodable

DOCUMENTED = [
    (events.BatchSucceeded, "batch.succeeded", {"output_file_uri": "gs://my-bucket/results.jsonl"}),
    (events.BatchSucceeded, "batch.completed", {}),
    (events.BatchFailed, "batch.failed", {"error_code": 3, "error_message": "bad"}),
    (events.BatchExpired, "batch.expired", {}),
    (events.BatchCancelled, "batch.cancelled", {}),
    (events.InteractionRequiresAction, "interaction.requires_action", {}),
    (events.InteractionCompleted, "interaction.completed", {"user_metadata": {"job": "7"}}),
    (events.InteractionFailed, "interaction.failed", {"error_code": "13", "error_message": "x"}),
    (events.InteractionCancelled, "interaction.cancelled", {}),
    (events.VideoGenerated, "video.generated", {"output_file_uri": "u", "file_name": "files/a"}),
]


def body(event_type: str, **data: object) -> bytes:
    head = {"type": event_type, "version": "v1", "timestamp": "2026-01-22T12:00:00Z"}
    return json.dumps({**head, "data": {"id": "id_1", **data}}).encode()


@pytest.mark.parametrize(("kind", "event_type", "data"), DOCUMENTED)
def test_a_documented_payload_becomes_its_own_class(
    kind: type[events.Event], event_type: str, data: dict[str, object]
) -> None:
    event = events.parse(body(event_type, **data))

    assert type(event) is kind
    assert event.data.id == "id_1"
    assert event.data.model_dump(exclude_none=True, exclude_defaults=True).items() >= data.items()


def test_an_unknown_type_is_a_plain_event_with_all_its_fields() -> None:
    event = events.parse(body("agent.paused", colour="red"))

    assert type(event) is events.Event
    assert event.data.model_extra == {"colour": "red"}


@pytest.mark.parametrize(
    ("event_type", "kind"),
    [
        ("interaction.budget_exceeded", events.InteractionEvent),
        ("batch.paused", events.BatchEvent),
        ("video.failed", events.VideoEvent),
        ("video", events.VideoEvent),
    ],
)
def test_a_type_that_is_new_in_a_known_family_is_read_as_the_family(
    event_type: str, kind: type[events.Event]
) -> None:
    event = events.parse(body(event_type, error_code=4, error_message="why"))

    assert type(event) is kind
    assert isinstance(event.data, events.Failure)
    assert (event.data.error_code, event.data.error_message) == (4, "why")
    assert event.canonical_type == event_type


@pytest.mark.parametrize("odd", [{}, [], True, 1.5])
def test_an_odd_detail_costs_the_detail_and_not_the_event(odd: object) -> None:
    event = events.parse(
        body("batch.failed", error_code=odd, error_message=odd, output_file_uri=odd)
    )

    assert isinstance(event, events.BatchFailed)
    assert (event.data.error_code, event.data.error_message) == (None, None)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("batch.succeeded", "batches/b1"), ("batch.completed", "b1")),
        (("video.generated", "models/veo/operations/o1"), ("video.generated", "operations/o1")),
        (("interaction.completed", "interactions/v1_x"), ("interaction.completed", "v1_x")),
    ],
)
def test_one_fact_told_in_two_ways_has_one_subject(
    one: tuple[str, str], other: tuple[str, str]
) -> None:
    first, second = (events.parse(body(name, id=key)) for name, key in (one, other))

    assert first.subject == second.subject


@pytest.mark.parametrize("other", [("batch.failed", "b1"), ("batch.succeeded", "B1")])
def test_another_state_or_another_case_is_another_subject(other: tuple[str, str]) -> None:
    assert events.parse(body("batch.succeeded", id="b1")).subject != (
        events.parse(body(other[0], id=other[1])).subject
    )


@given(st.text(min_size=1))
def test_no_prefix_eats_the_whole_id(resource_id: str) -> None:
    assert heads.bare_id(resource_id)
    assert resource_id.endswith(heads.bare_id(resource_id))


@pytest.mark.parametrize(
    "given_body",
    [
        {"type": "interaction.completed", "data": {"name": "id_1"}},
        {"type": "interaction.completed", "data": {"interaction_id": "id_1"}},
        {"type": "interaction.completed", "data": {"interaction": {"id": "id_1"}}},
        {"type": "interaction.completed", "interaction": {"id": "id_1"}},
        {"event_type": "interaction.completed", "data": {"id": "id_1"}},
        {"type": "interaction.completed", "version": 2, "data": {"id": "id_1"}},
        {"type": "interaction.completed", "timestamp": 1769083200, "data": {"id": "id_1"}},
        {"type": "batch.succeeded", "data": {"id": None, "name": "id_1"}},
        {"type": "batch.succeeded", "data": {"id": "", "name": 5, "interaction_id": "id_1"}},
    ],
)
def test_an_id_is_found_wherever_it_was_seen(given_body: dict[str, object]) -> None:
    event = events.parse(json.dumps(given_body).encode())

    assert event.data.id == "id_1"


@pytest.mark.parametrize("place", ["output_file_uri", "video_uri", "uri"])
def test_a_video_is_found_under_each_name_of_its_field(place: str) -> None:
    event = events.parse(body("video.generated", **{place: "https://x/v"}))

    assert isinstance(event, events.VideoGenerated)
    assert event.data.output_file_uri == "https://x/v"


def test_user_metadata_is_found_in_the_data_and_beside_it() -> None:
    inside = events.parse(body("interaction.completed", user_metadata={"a": 1}))
    beside = events.parse(
        json.dumps({"type": "x", "data": {"id": "i"}, "user_metadata": {"a": 1}}).encode()
    )

    assert (inside.data.user_metadata, beside.data.user_metadata) == ({"a": 1}, {"a": 1})


def test_a_byte_order_mark_is_no_part_of_the_event() -> None:
    marked = codecs.BOM_UTF8 + body("interaction.completed")

    assert heads.type_of(marked) == events.parse(marked).type == "interaction.completed"


def test_a_large_integer_is_not_rounded() -> None:
    event = events.parse(body("interaction.completed", user_metadata={"account": 10**20 + 1}))

    assert event.data.user_metadata == {"account": 10**20 + 1}


NOBODYS = [
    b"",
    b"\x00\xff",
    b"[]",
    b'"x"',
    b"5",
    b"null",
    b"true",
    b"{}",
    b'{"type":"x"}',
    b'{"type":5,"data":{"id":"i"}}',
    b'{"type":"x","data":null}',
    b'{"type":"x","data":[]}',
    b'{"type":"x","data":{"id":5}}',
    b'{"type":"x","data":{"id":""}}',
    b"[" * 20_000 + b"]" * 20_000,
    b'{"type":"x","data":{"id":"i","n":' + b"[" * 600 + b"]" * 600 + b"}}",
    b'{"type":"x","data":{"id":"\\ud800"}}',
]


@pytest.mark.parametrize("given_body", NOBODYS)
def test_what_is_no_event_is_undecodable_and_nothing_else(given_body: bytes) -> None:
    with pytest.raises(Undecodable) as caught:
        events.parse(given_body)

    assert len(str(caught.value)) <= 200


@given(st.binary())
def test_any_bytes_have_a_head(given_body: bytes) -> None:
    assert isinstance(heads.head_of(given_body).type, str)


@given(st.dictionaries(st.sampled_from(["type", "data", "id", "version"]), st.text()))
def test_any_object_is_an_event_or_undecodable(given_object: dict[str, object]) -> None:
    try:
        event = events.parse(json.dumps(given_object).encode())
    except Undecodable:
        return

    assert isinstance(event, events.Event)


def test_receiver_and_worker_read_the_same_type_from_duplicate_keys() -> None:
    twice = (
        b'{"type":"interaction.completed","type":"interaction.requires_action",'
        b'"data":{"id":"int_1","id":"int_2"}}'
    )

    assert heads.type_of(twice) == events.parse(twice).type


@pytest.mark.parametrize(
    "given_body", [*NOBODYS[:9], b'{"type":5}', b'{"type":"' + b"x" * 256 + b'"}']
)
def test_a_type_that_cannot_be_a_routing_key_is_unknown(given_body: bytes) -> None:
    assert heads.type_of(given_body) in ("unknown", "x")


def test_every_event_of_gemini_lands_in_a_built_in_queue() -> None:
    patterns = [pattern for queue in topology.BUILT_IN for _, pattern in queue.bindings]
    missing = [
        name
        for kind in events.KNOWN
        if kind.exchange == topology.EVENTS
        for name in kind.types
        if not any(topology.matches(pattern, name) for pattern in patterns)
    ]

    assert missing == []


@pytest.mark.parametrize("odd", [None, "", 5, [], "x" * 300])
def test_where_one_name_of_the_type_is_unusable_both_read_the_other(odd: object) -> None:
    """Else an event is routed as one thing and handled as another."""
    body = orjson.dumps(
        {"type": odd, "event_type": "interaction.completed", "data": {"id": "int_1"}}
    )

    assert heads.type_of(body) == events.parse(body).type == "interaction.completed"
    assert isinstance(events.parse(body), events.InteractionCompleted)


def test_an_id_without_end_is_undecodable() -> None:
    body = orjson.dumps({"type": "video.generated", "data": {"id": "x" * 1_000_000}})

    with pytest.raises(Undecodable, match="at most 2048"):
        events.parse(body)


def test_the_names_that_are_known_without_the_classes_are_theirs() -> None:
    assert list(events.BY_TYPE) == list(heads.TYPES)
    assert list(events.FAMILIES) == list(heads.FAMILIES)
