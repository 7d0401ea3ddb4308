import json
import warnings
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from gemhooks.conversations import Chunk, Message, ToolCall, ToolResponse, to_messages, to_steps
from tests.gemhooks.conversations.strategies import COUNTERPARTS, MESSAGES

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from google.genai import interactions


def message(role: str, *chunks: dict[str, Any]) -> Message:
    return Message.from_wire({"role": role, "chunks": list(chunks)})


def test_a_conversation_of_the_agent_studio_becomes_steps() -> None:
    said = [
        message(
            "user", {"text": "Refund it"}, {"image": {"mimeType": "image/png", "data": "AA=="}}
        ),
        message(
            "agent",
            {"text": "One moment."},
            {"toolCall": {"id": "t1", "tool": "projects/p/tools/refund", "args": {"cents": 100}}},
            {"text": "Done."},
        ),
        message("user", {"toolResponse": {"id": "t1", "response": {"output": "ok"}}}),
    ]

    assert to_steps(said) == [
        {
            "type": "user_input",
            "content": [
                {"type": "text", "text": "Refund it"},
                {"type": "image", "mime_type": "image/png", "data": "AA=="},
            ],
        },
        {"type": "model_output", "content": [{"type": "text", "text": "One moment."}]},
        {"type": "function_call", "id": "t1", "name": "refund", "arguments": {"cents": 100}},
        {"type": "model_output", "content": [{"type": "text", "text": "Done."}]},
        {"type": "function_result", "call_id": "t1", "result": "ok"},
    ]


@given(st.lists(COUNTERPARTS, max_size=4))
def test_what_has_a_counterpart_comes_back(messages: list[Message]) -> None:
    assert to_messages({"steps": to_steps(messages)}) == messages


@given(st.lists(MESSAGES, max_size=4))
def test_every_conversation_becomes_steps_that_the_official_client_knows(
    messages: list[Message],
) -> None:
    steps = to_steps(messages)

    for step in TypeAdapter(list[interactions.Step]).validate_python(steps):
        assert not isinstance(step, interactions.UnknownStep)


@pytest.mark.parametrize(
    "chunk",
    [
        {"payload": {"ours": 1}},
        {"payload": {"gemini": 1}},
        {"payload": {"gemini": {"step": 1}}},
        {"payload": {"gemini": {"step": {"type": "thought"}, "more": {}}}},
        {"payload": {"gemini": {"fields": {"of": "nothing"}}}},
        {"payload": {"gemini": {"stepFields": {"of": "nothing"}}}},
        {"agentTransfer": {"targetAgent": "agents/b"}},
        {"updatedVariables": {"n": 1}},
        {"defaultVariables": {"n": 1}},
        {"hologram": {}},
    ],
)
def test_what_steps_can_not_say_is_left_out(chunk: dict[str, Any]) -> None:
    assert to_steps([message("agent", chunk)]) == []


@pytest.mark.parametrize(
    ("response", "result", "failed"),
    [
        ({"output": "ok"}, "ok", False),
        ({"output": {"a": 1}, "note": "dropped"}, {"a": 1}, False),
        ({"output": 5}, {"result": 5}, False),
        ({"output": None}, {"result": None}, False),
        ({"output": [1, 2]}, {"result": [1, 2]}, False),
        ({"output": [{"type": "text", "text": "x"}]}, [{"type": "text", "text": "x"}], False),
        ({"temp": 21}, {"temp": 21}, False),
        ({}, {}, False),
        ({"error": "boom"}, "boom", True),
        ({"error": None}, {"result": None}, True),
        ({"error": "late", "output": "half"}, {"error": "late", "output": "half"}, True),
    ],
)
def test_the_result_is_the_output_or_the_error_or_else_the_whole_object(
    response: dict[str, Any], result: Any, *, failed: bool
) -> None:
    answer = Message(role="user", chunks=(Chunk(tool_response=ToolResponse(response=response)),))

    [step] = to_steps([answer])

    assert step["result"] == result
    assert step.get("is_error", False) is failed


@pytest.mark.parametrize(
    ("tool", "name"),
    [
        ({"displayName": "refund", "tool": "projects/p/tools/t1"}, "refund"),
        ({"tool": "projects/p/tools/t1"}, "t1"),
        ({"tool": "t1"}, "t1"),
        ({"toolsetTool": {"toolset": "s", "toolId": "pay"}}, "pay"),
        ({"toolsetTool": {"toolset": "s"}}, ""),
        ({}, ""),
    ],
)
def test_a_call_is_named_as_the_client_function_is(tool: dict[str, Any], name: str) -> None:
    [step] = to_steps([message("agent", {"toolCall": tool})])

    assert step["name"] == name


def test_calls_without_ids_get_one_each_and_responses_find_theirs() -> None:
    def call(name: str) -> Chunk:
        return Chunk(tool_call=ToolCall(display_name=name))

    def response(name: str, value: int) -> Chunk:
        said = {"value": value}
        return Chunk(tool_response=ToolResponse(display_name=name, response=said))

    said = [
        Message(role="agent", chunks=(call("f"), call("g"), call("f"))),
        Message(role="user", chunks=(response("g", 1), response("f", 2), response("f", 3))),
    ]

    f1, g, f2, *results = to_steps(said)

    assert len({f1["id"], g["id"], f2["id"]}) == 3
    assert [(each["call_id"], each["result"]) for each in results] == [
        (g["id"], {"value": 1}),
        (f1["id"], {"value": 2}),
        (f2["id"], {"value": 3}),
    ]


def test_a_payload_adds_to_what_a_chunk_shows_and_changes_nothing() -> None:
    forged = {"gemini": {"fields": {"type": "thought", "name": "pay", "note": 1}}}
    call = {"toolCall": {"id": "c1", "displayName": "look"}}

    [step] = to_steps([message("agent", call, {"payload": forged})])

    assert step == {"type": "function_call", "id": "c1", "name": "look", "arguments": {}, "note": 1}


def test_integers_stay_integers_on_the_way() -> None:
    call = {"toolCall": {"id": "c1", "displayName": "f", "args": {"cents": 100, "big": 2**60}}}

    steps = to_steps([Message.from_wire(json.dumps({"role": "agent", "chunks": [call]}))])

    assert json.dumps(steps[0]["arguments"]) == f'{{"cents": 100, "big": {2**60}}}'
