import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemhooks.conversations import Chunk, Message, to_messages, to_steps
from tests.gemhooks.conversations.strategies import JSON, STEPS

PNG = base64.b64encode(b"\x89PNG").decode()


def chunks_of(*parts: dict[str, Any]) -> list[dict[str, Any]]:
    """What one model output becomes, on the wire."""
    [message] = to_messages({"steps": [{"type": "model_output", "content": list(parts)}]})
    return [chunk.to_wire() for chunk in message.chunks]


def wire_of(step: dict[str, Any]) -> dict[str, Any]:
    [message] = to_messages({"steps": [step]})
    return message.to_wire()


def test_an_interaction_becomes_one_message_a_step() -> None:
    interaction = {
        "id": "v1_a",
        "created": "2026-11-30T08:00:00.5Z",
        "updated": "2026-11-30T09:00:01+01:00",
        "steps": [
            {"type": "user_input", "content": [{"type": "text", "text": "Weather in Bern?"}]},
            {"type": "thought", "signature": "c2ln"},
            {"type": "function_call", "id": "c1", "name": "get_weather", "arguments": {"days": 2}},
            {"type": "function_result", "call_id": "c1", "name": "get_weather", "result": {"t": 7}},
            {"type": "model_output", "content": [{"type": "text", "text": "Seven degrees."}]},
        ],
    }

    said = [message.to_wire() for message in to_messages(interaction)]

    start, end = "2026-11-30T08:00:00.500Z", "2026-11-30T08:00:01Z"
    thought = {"gemini": {"step": {"type": "thought", "signature": "c2ln"}}}
    call = {"id": "c1", "displayName": "get_weather", "args": {"days": 2}}
    response = {"id": "c1", "displayName": "get_weather", "response": {"output": {"t": 7}}}
    assert said == [
        {"role": "user", "chunks": [{"text": "Weather in Bern?"}], "eventTime": start},
        {"role": "agent", "chunks": [{"payload": thought}], "eventTime": end},
        {"role": "agent", "chunks": [{"toolCall": call}], "eventTime": end},
        {"role": "user", "chunks": [{"toolResponse": response}], "eventTime": start},
        {"role": "agent", "chunks": [{"text": "Seven degrees."}], "eventTime": end},
    ]


@pytest.mark.parametrize("mime_type", ["image/png", "image/jpeg", "image/webp"])
def test_an_image_of_a_type_that_the_format_takes_is_an_image(mime_type: str) -> None:
    part = {"type": "image", "mime_type": mime_type, "data": PNG}

    assert chunks_of(part) == [{"image": {"mimeType": mime_type, "data": PNG}}]


@pytest.mark.parametrize("kind", ["heic", "heif", "gif", "bmp", "tiff"])
def test_any_other_image_is_a_blob(kind: str) -> None:
    part = {"type": "image", "mime_type": f"image/{kind}", "data": PNG}

    assert chunks_of(part) == [{"blob": {"mimeType": f"image/{kind}", "data": PNG}}]


@pytest.mark.parametrize(
    ("kind", "mime_type"),
    [("audio", "audio/wav"), ("video", "video/mp4"), ("document", "application/pdf")],
)
def test_audio_video_and_documents_are_blobs(kind: str, mime_type: str) -> None:
    part = {"type": kind, "mime_type": mime_type, "data": PNG}

    assert chunks_of(part) == [{"blob": {"mimeType": mime_type, "data": PNG}}]


def test_the_words_of_an_audio_are_its_transcript() -> None:
    audio = {"type": "audio", "mime_type": "audio/wav", "data": PNG, "sample_rate": 24000}
    notes = [{"type": "speech_metadata", "speaker": "Ada"}]
    words = {"type": "text", "text": "Hello", "annotations": notes}

    assert chunks_of(audio, words) == [
        {"blob": {"mimeType": "audio/wav", "data": PNG}},
        {"payload": {"gemini": {"fields": {"sample_rate": 24000}}}},
        {"transcript": "Hello"},
        {"payload": {"gemini": {"fields": {"annotations": notes}}}},
    ]


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image", "uri": "files/abc", "mime_type": "image/png"},
        {"type": "image", "data": PNG},
        {"type": "image", "mime_type": "image/png", "data": "not base64!"},
        {"type": "document", "mime_type": "audio/wav", "data": PNG},
        {"type": "hologram", "mime_type": "image/png", "data": PNG},
        {"type": "text"},
        {},
    ],
)
def test_what_has_no_bytes_or_no_type_is_kept_whole(part: dict[str, Any]) -> None:
    assert chunks_of(part) == [{"payload": {"gemini": {"content": part}}}]


def test_a_failed_function_is_an_error() -> None:
    step = {"type": "function_result", "call_id": "c1", "result": "no such city", "is_error": True}

    assert wire_of(step)["chunks"] == [
        {"toolResponse": {"id": "c1", "response": {"error": "no such city"}}}
    ]


def test_a_sub_agents_call_says_so() -> None:
    step = {
        "type": "function_call",
        "id": "c2",
        "name": "sign",
        "arguments": {},
        "parent_tool_call_id": "c1",
        "agent_name": "Contract Architect",
    }

    [call, _rest] = wire_of(step)["chunks"]

    assert call["toolCall"]["parentToolCallId"] == "c1"
    assert call["toolCall"]["agentName"] == "Contract Architect"


def test_what_ran_at_google_never_looks_like_a_call_to_run() -> None:
    mcp = {"type": "mcp_server_tool_call", "id": "m1", "name": "pay", "arguments": {}}
    search = {"type": "google_search_call", "id": "s1", "arguments": {"queries": ["x"]}}

    for step in (mcp, search):
        assert wire_of(step)["chunks"] == [{"payload": {"gemini": {"step": step}}}]


@pytest.mark.parametrize(
    ("said", "step"),
    [
        ("Hi", {"type": "user_input", "content": [{"type": "text", "text": "Hi"}]}),
        (
            {"type": "text", "text": "Hi"},
            {"type": "user_input", "content": [{"type": "text", "text": "Hi"}]},
        ),
        (
            [{"type": "function_result", "call_id": "c1", "result": "7"}],
            {"type": "function_result", "call_id": "c1", "result": "7"},
        ),
    ],
)
def test_the_input_is_shown_where_the_steps_do_not_repeat_it(said: Any, step: Any) -> None:
    output = {"type": "model_output", "content": [{"type": "text", "text": "Hello"}]}
    whole = to_messages({"steps": [step, output]})

    assert to_messages({"input": said, "steps": [output]}) == whole
    assert to_messages({"input": said, "steps": [step, output]}) == whole


def test_a_step_that_the_format_can_not_hold_is_left_out_and_said_so() -> None:
    deep: Any = "bottom"
    for _ in range(60):
        deep = [deep]
    step = {"type": "function_call", "id": "c1", "name": "f", "arguments": {"deep": deep}}
    odd = {"type": "model_output", "content": [{"type": "text", "text": "\ud800"}]}
    fine = {"type": "model_output", "content": [{"type": "text", "text": "Hello"}]}

    *missing, last = to_messages({"steps": [step, odd, fine]})

    why = {"why": "the conversation format can't hold this step"}
    for message in missing:
        assert message.chunks == (Chunk(payload={"gemini": {"omitted": why}}),)
    assert last.chunks == (Chunk(text="Hello"),)
    assert to_steps([*missing, last]) == [fine]


@given(st.dictionaries(st.sampled_from(["steps", "input", "created", "updated"]), JSON))
def test_an_interaction_of_any_shape_becomes_messages(interaction: dict[str, Any]) -> None:
    for message in to_messages(interaction):
        assert Message.from_wire(message.to_json()) == message


@given(st.lists(STEPS, max_size=4))
def test_all_that_gemini_said_comes_back(steps: list[dict[str, Any]]) -> None:
    messages = to_messages({"steps": steps})

    sent = [Message.from_wire(message.to_json()) for message in messages]

    assert to_steps(sent) == steps
