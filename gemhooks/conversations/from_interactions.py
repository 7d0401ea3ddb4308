"""An interaction's steps as messages. What is lost on the way: docs/conversations.md."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from gemhooks.conversations import contents
from gemhooks.conversations.leftovers import Kept, keep, keep_rest
from gemhooks.conversations.messages import Chunk, Message, ToolCall, ToolResponse
from gemhooks.conversations.values import normal_time

USER, AGENT = "user", "agent"
_OF_USER = frozenset({"user_input", "function_result"})


def to_messages(interaction: Mapping[str, Any]) -> list[Message]:
    """The messages of *interaction*, one a step, in their order; never raises for its content.

    The user's input and the function results are the user's side, all else is the agent's. What
    the format has no field for follows in payloads, see :mod:`gemhooks.conversations.leftovers`.
    """
    return [
        _message(step, _time_of(interaction, step))
        for step in _steps(interaction)
        if isinstance(step, dict)
    ]


def _steps(interaction: Mapping[str, Any]) -> list[Any]:
    """The steps, and before them the input where they don't repeat it."""
    steps = interaction.get("steps")
    steps = steps if isinstance(steps, list) else []
    if any(isinstance(each, dict) and each.get("type") == "user_input" for each in steps):
        return steps
    return [each for each in _input_steps(interaction.get("input")) if each not in steps] + steps


def _input_steps(given: Any) -> list[Any]:
    """The input of a create call: a text, one content or several, or steps."""
    if isinstance(given, str):
        given = [{"type": "text", "text": given}]
    parts = given if isinstance(given, list) else [given] if isinstance(given, dict) else []
    if all(isinstance(each, dict) and _is_step(each) for each in parts):
        return parts
    return [{"type": "user_input", "content": parts}]


def _is_step(part: dict[str, Any]) -> bool:
    return part.get("type") not in {"text", "image", "audio", "video", "document"}


def _message(step: dict[str, Any], time: str | None) -> Message:
    try:
        chunks = _chunks(step)
    except ValidationError:  # nested too deeply, or a text that is no Unicode
        chunks = [keep(Kept.OMITTED, {"why": "the conversation format can't hold this step"})]
    role = USER if step.get("type") in _OF_USER else AGENT
    return Message(role=role, chunks=tuple(chunks), event_time=time)


def _chunks(step: dict[str, Any]) -> list[Chunk]:
    match step:
        case {"type": "user_input" | "model_output", "content": [dict(), *_] as content} if all(
            isinstance(part, dict) for part in content
        ):
            shown = [chunk for part in content for chunk in contents.to_chunks(part)]
            return [*shown, *keep_rest(Kept.STEP_FIELDS, step, ("type", "content"))]
        case {
            "type": "function_call",
            "id": str() as key,
            "name": str() as name,
            "arguments": dict() as arguments,
        }:
            call = ToolCall(
                id=key,
                display_name=name,
                parent_tool_call_id=_word(step, "parent_tool_call_id"),
                agent_name=_word(step, "agent_name"),
                args=arguments,
            )
            used = ("type", "id", "name", "arguments")
            return [Chunk(tool_call=call), *keep_rest(Kept.FIELDS, step, used)]
        case {"type": "function_result", "call_id": str(), "result": _}:
            return _result(step)
        case _:
            # Searches, code, MCP calls and the like ran on Google's side. As tool calls they
            # would look as if someone had still to run them.
            return [keep(Kept.STEP, step)]


def _result(step: dict[str, Any]) -> list[Chunk]:
    used = ["type", "call_id", "result"]
    failed = step.get("is_error") is True
    name = _word(step, "name") or None
    used += ["is_error"] * failed + ["name"] * bool(name)
    response = ToolResponse(
        id=step["call_id"],
        display_name=name,
        parent_tool_call_id=_word(step, "parent_tool_call_id"),
        agent_name=_word(step, "agent_name"),
        response={"error" if failed else "output": step["result"]},
    )
    return [Chunk(tool_response=response), *keep_rest(Kept.FIELDS, step, used)]


def _word(step: dict[str, Any], name: str) -> str | None:
    """The text of a field, where it is one; nobody documents the sub-agent fields for Gemini."""
    return step[name] if isinstance(step.get(name), str) else None


def _time_of(interaction: Mapping[str, Any], step: dict[str, Any]) -> str | None:
    """Steps have no times: the user spoke at the start, all else is there since the last change."""
    said = interaction.get("created" if step.get("type") in _OF_USER else "updated")
    try:
        return normal_time(said) if isinstance(said, str) else None
    except ValueError:
        return None
