"""The calls that an interaction waits for."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

from gemhooks.functions.texts import is_sendable

# An interaction's steps as google-genai 3.6 knows them; what is not here is counted.
KNOWN_STEPS = frozenset(
    {"user_input", "model_output", "thought", "function_call", "function_result"}
    | {
        f"{tool}_{half}"
        for tool in (
            "code_execution",
            "file_search",
            "google_maps",
            "google_search",
            "mcp_server_tool",
            "processing",
            "retrieval",
            "tool_search",
            "url_context",
        )
        for half in ("call", "result")
    }
)


@dataclass(frozen=True, slots=True)
class Call:
    """One function call, its arguments as they came: an object, if the model behaves."""

    id: str
    name: str
    arguments: Any = None


@dataclass(frozen=True, slots=True)
class Waiting:
    """The calls to answer, in their order, and how many steps made no sense."""

    calls: tuple[Call, ...] = ()
    ignored: int = 0


def waiting_calls(steps: object) -> Waiting:
    """Every function call without a later result, once each; what is no list has none."""
    waiting: dict[str, Call] = {}
    ignored = 0
    for step in steps if isinstance(steps, Sequence) else ():
        ignored += not _take(step, waiting)
    return Waiting(tuple(waiting.values()), ignored)


def _take(step: Any, waiting: dict[str, Call]) -> bool:
    """Note what *step* says of the calls; False where it says nothing we understand."""
    if not isinstance(step, dict):
        return False
    if step.get("type") == "function_call":
        return _take_call(step, waiting)
    if step.get("type") == "function_result":
        return _take_result(step, waiting)
    return isinstance(step.get("type"), str) and step["type"] in KNOWN_STEPS


def _take_call(step: dict[str, Any], waiting: dict[str, Call]) -> bool:
    name, key = step.get("name"), step.get("id")
    # An empty name can be answered ("no such function"); an empty id can't.
    if not isinstance(name, str) or not _is_id(key):
        return False
    # A model that has nothing to say leaves them out.
    waiting.setdefault(key, Call(key, name, step.get("arguments", {})))
    return True


def _take_result(step: dict[str, Any], waiting: dict[str, Call]) -> bool:
    key = step.get("call_id")
    if not _is_id(key):
        return False
    waiting.pop(key, None)
    return True


def _is_id(value: Any) -> TypeGuard[str]:
    return isinstance(value, str) and bool(value) and is_sendable(value)
