import json
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from google.cloud import ces_v1
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from gemhooks.conversations import (
    Blob,
    Chunk,
    Image,
    Message,
    ToolCall,
    ToolResponse,
    ToolsetTool,
)
from gemhooks.conversations.values import DEEPEST
from gemhooks.errors import Undecodable
from tests.gemhooks.conversations.strategies import MESSAGES

# Every field of the resource, in the reference's order.
WHOLE: dict[str, Any] = {
    "role": "agent",
    "chunks": [
        {"text": ""},
        {"transcript": "as heard"},
        {"blob": {"mimeType": "audio/wav", "data": "+/8="}},
        {"payload": {"rich": [1, 2.5, None, True, {"deep": []}]}},
        {"image": {"mimeType": "image/webp", "data": "AAAA"}},
        {
            "toolCall": {
                "id": "c1",
                "displayName": "get_weather",
                "args": {"days": 3, "big": 12345678901234567890, "none": None},
                "parentToolCallId": "c0",
                "agentName": "Contract Architect",
                "tool": "projects/p/locations/us/apps/a/tools/t",
            }
        },
        {
            "toolResponse": {
                "id": "c1",
                "displayName": "get_weather",
                "response": {"output": {"temp": 21}},
                "parentToolCallId": "c0",
                "agentName": "Contract Architect",
                "toolsetTool": {
                    "toolset": "projects/p/locations/us/apps/a/toolsets/s",
                    "toolId": "t",
                },
            }
        },
        {"agentTransfer": {"targetAgent": "projects/p/.../agents/b", "displayName": "B"}},
        {"updatedVariables": {"n": 1}},
        {"defaultVariables": {}},
    ],
    "eventTime": "2026-11-30T08:00:00.123456789Z",
}


def chunk_of(given: dict[str, Any]) -> Chunk:
    return Message.from_wire({"chunks": [given]}).chunks[0]


def test_every_field_is_read_and_written_again_exactly() -> None:
    message = Message.from_wire(json.dumps(WHOLE))

    assert json.loads(message.to_json()) == WHOLE
    assert message.to_wire() == WHOLE


def test_an_integer_stays_an_integer() -> None:
    written = Message.from_wire(json.dumps(WHOLE)).to_json()

    assert b'"days": 3,' in written
    assert b'"big": 12345678901234567890' in written


def test_a_message_reads_the_same_from_bytes_text_and_object() -> None:
    text = json.dumps(WHOLE)

    assert Message.from_wire(text) == Message.from_wire(text.encode()) == Message.from_wire(WHOLE)


@given(MESSAGES)
def test_what_is_written_is_read_again_the_same(message: Message) -> None:
    assert Message.from_wire(message.to_json()) == message


@given(MESSAGES)
def test_the_official_types_read_and_write_the_same_message(message: Message) -> None:
    official = ces_v1.Message.from_json(message.to_json())
    text = ces_v1.Message.to_json(official, always_print_fields_with_no_presence=False)

    again = Message.from_wire(text)

    assert ces_v1.Message.from_json(again.to_json()) == official
    # Protobuf can't say that a list is set and empty, nor args without a member.
    assert _without_absent(again.to_wire()) == _without_absent(message.to_wire())


def test_the_official_types_read_every_field_that_they_know() -> None:
    official = ces_v1.Message.from_json(json.dumps(WHOLE), ignore_unknown_fields=True)

    again = Message.from_wire(
        ces_v1.Message.to_json(official, always_print_fields_with_no_presence=False)
    )

    assert len(again.chunks) == len(WHOLE["chunks"])
    assert again.event_time == WHOLE["eventTime"]
    assert again.chunks[:5] == Message.from_wire(WHOLE).chunks[:5]


def _without_absent(wire: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in wire.items() if name != "chunks" or value}


def _nested(levels: int) -> dict[str, Any]:
    return {"a": _nested(levels - 1)} if levels else {}


@pytest.mark.parametrize(
    "chunk",
    [
        {"payload": _nested(DEEPEST)},
        {"toolCall": {"args": _nested(DEEPEST)}},
        {"toolResponse": {"response": _nested(DEEPEST)}},
        {"updatedVariables": _nested(DEEPEST)},
    ],
)
def test_the_deepest_object_is_read_by_the_official_types_too(chunk: dict[str, Any]) -> None:
    wire = {"chunks": [chunk]}

    assert Message.from_wire(wire).to_wire() == wire
    ces_v1.Message.from_json(json.dumps(wire))


def test_the_names_of_protobuf_are_read_too() -> None:
    snake = chunk_of({"tool_call": {"display_name": "f", "parent_tool_call_id": "p"}})

    assert snake.to_wire() == {"toolCall": {"displayName": "f", "parentToolCallId": "p"}}


def test_null_is_a_field_that_is_not_set() -> None:
    message = Message.from_wire({"role": None, "chunks": [{"text": "a", "blob": None}]})

    assert message.to_wire() == {"chunks": [{"text": "a"}]}


def test_unknown_fields_are_kept_and_written_again() -> None:
    wire = {
        "chunks": [
            {"toolCall": {"id": "1", "targetApp": "apps/b", "args": {}}},
            {"hologram": {"depth": [1, None]}},
            {"image": {"mimeType": "image/png", "data": "", "altText": "a hat"}},
        ],
        "language": None,
        "turn": {"index": 3},
    }

    assert Message.from_wire(wire).to_wire() == wire


def test_empty_bytes_may_be_left_out_as_protojson_does() -> None:
    chunk = chunk_of({"blob": {"mimeType": "audio/wav"}})

    assert chunk.to_wire() == {"blob": {"mimeType": "audio/wav", "data": ""}}


def test_a_chunk_that_only_a_later_release_knows_has_no_member_here() -> None:
    chunk = chunk_of({"hologram": {}})

    assert chunk.member is None
    assert chunk_of({"transcript": ""}).member == "transcript"


@pytest.mark.parametrize(
    ("wire", "complaint"),
    [
        (
            {"chunks": [{}]},
            "chunks.0: exactly one of text, transcript, blob, payload, image, toolC",
        ),
        ({"chunks": [{"text": None}]}, "chunks.0: exactly one of"),
        ({"chunks": [{"text": "a", "transcript": "a"}]}, "only one of text and transcript may be"),
        ({"chunks": [{"text": "a", "payload": {}}]}, "only one of text and payload may be set"),
        (
            {"chunks": [{"toolCall": {"tool": "t", "toolsetTool": {"toolset": "s"}}}]},
            "chunks.0.toolCall: only one of tool and toolsetTool may be set",
        ),
        (
            {
                "chunks": [
                    {"toolResponse": {"tool": "", "toolset_tool": {"toolset": "s"}, "response": {}}}
                ]
            },
            "only one of tool and toolsetTool may be set",
        ),
        ({"chunks": [{"toolResponse": {"id": "1"}}]}, "chunks.0.toolResponse.response: Field req"),
        (
            {"chunks": [{"toolResponse": {"response": [1]}}]},
            "response: Input should be a valid dict",
        ),
        ({"chunks": [{"toolCall": {"args": "{}"}}]}, "args: Input should be a valid dictionary"),
        ({"chunks": [{"toolCall": {"toolsetTool": {}}}]}, "toolsetTool.toolset: Field required"),
        ({"chunks": [{"agentTransfer": {}}]}, "agentTransfer.targetAgent: Field required"),
        ({"chunks": [{"image": {"mimeType": "image/heic", "data": ""}}]}, "image/png"),
        ({"chunks": [{"image": {"mimeType": "image/jpg", "data": ""}}]}, "image/png"),
        ({"chunks": [{"image": {"data": ""}}]}, "image.mimeType: Field required"),
        ({"chunks": [{"blob": {"data": ""}}]}, "blob.mimeType: Field required"),
        ({"chunks": [{"blob": {"mimeType": "a/b", "data": "?"}}]}, "blob.data: not base64"),
        ({"chunks": [{"blob": {"mimeType": "a/b", "data": 1}}]}, "blob.data: Input should be"),
        ({"chunks": {"text": "a"}}, "chunks: Input should be a valid tuple"),
        ({"chunks": [{"text": 1}]}, "chunks.0.text: Input should be a valid string"),
        ({"role": "\ud800"}, "role: a text with a lone surrogate"),
        ({"eventTime": "yesterday"}, "eventTime: not an RFC 3339 time"),
        ({"eventTime": 1.5}, "eventTime: Input should be a valid string"),
        (
            {"event_time": "2026-11-30T08:00:00Z", "eventTime": "2026-11-30T08:00:00Z"},
            "both of its",
        ),
        ('{"chunks": [{"payload": {"a": NaN}}]}', "not JSON"),
        ('{"chunks": [{"payload": {"a": 1e999}}]}', "a number that a double can't hold"),
        ('{"chunks": [{"payload": {"a": "\\ud800"}}]}', "not JSON"),
        ('{"role": "user"', "not JSON"),
        (b"\xff", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "not a Message: Input should be"),
    ],
)
def test_what_breaks_the_format_is_one_clear_error(wire: Any, complaint: str) -> None:
    with pytest.raises(Undecodable) as caught:
        Message.from_wire(wire)

    assert complaint in str(caught.value)
    assert len(str(caught.value)) < 350


def test_an_error_tells_nothing_of_what_was_said() -> None:
    wire = {
        "chunks": [{"text": "my secret", "blob": {"mimeType": "my secret", "data": "my secret"}}]
    }

    with pytest.raises(Undecodable) as caught:
        Message.from_wire(wire)

    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (Chunk, {"txt": "my secret"}),
        (Chunk, {}),
        (Chunk, {"text": "my secret", "transcript": "a"}),
        (Image, {"mime_type": "image/gif", "data": b""}),
        (ToolCall, {"tool": "t", "toolset_tool": ToolsetTool(toolset="s")}),
        (ToolResponse, {"response": {"a": float("nan")}}),
        (Message, {"event_time": datetime(2026, 11, 30)}),  # noqa: DTZ001 - the mistake
        (Message, {"hologram": 1}),
    ],
)
def test_what_is_made_here_is_held_to_what_is_known(
    kind: type[BaseModel], given: dict[str, Any]
) -> None:
    with pytest.raises(ValidationError) as caught:
        kind(**given)

    assert "my secret" not in str(caught.value)


MINUTES = st.integers(-23 * 60, 23 * 60).map(lambda count: timezone(timedelta(minutes=count)))


@given(st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1), timezones=MINUTES))  # noqa: DTZ001
def test_a_message_can_be_made_with_a_time_of_pythons(when: datetime) -> None:
    message = Message.model_validate({"event_time": when})

    assert message.event_time is not None
    assert datetime.fromisoformat(message.event_time) == when


def test_bytes_are_not_printed() -> None:
    blob = Blob(mime_type="audio/wav", data=b"my secret")

    assert repr(Message(chunks=(Chunk(blob=blob),))) == (
        "Message(chunks=(Chunk(blob=Blob(mime_type='audio/wav')),))"
    )
