"""The few facts of an interaction that people ask for, from JSON of any shape."""

from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from pydantic import BaseModel

Json = dict[str, Any]

# Usage's fields by what the tokens were spent on.
KINDS = {
    "input": ("total_input_tokens", "input_tokens_by_modality"),
    "output": ("total_output_tokens", "output_tokens_by_modality"),
    "thought": ("total_thought_tokens", ""),
    "tool_use": ("total_tool_use_tokens", "tool_use_tokens_by_modality"),
    "cached": ("total_cached_tokens", "cached_tokens_by_modality"),
}
UNSPECIFIED = "unspecified"  # the modality of tokens that Gemini does not break down
CALLS = "_call"  # how the types of steps end that call a tool
LONGEST_NAME = 200  # characters


class Tokens(BaseModel, frozen=True):
    """Tokens of one kind and modality. Cached ones are a part of the input."""

    kind: str
    modality: str
    tokens: int


class Summary(BaseModel, frozen=True):
    """What an interaction was, cost and used. Times are seconds."""

    id: str = ""
    status: str = ""
    model: str = ""
    agent: str = ""
    service_tier: str = ""
    text: str = ""
    total_tokens: int = 0
    tokens: tuple[Tokens, ...] = ()
    grounding: dict[str, int] = {}  # uses of each grounding tool
    tools: dict[str, int] = {}  # calls of each function and tool
    steps: int = 0
    created: str = ""
    updated: str = ""
    seconds: float | None = None  # from created to updated
    error_code: str = ""
    error_message: str = ""


def summarise(interaction: Json) -> Summary:
    """Read *interaction* as GET gives it; what is null, absent or odd counts as nothing."""
    usage = _object(interaction.get("usage"))
    steps = list(_objects(interaction.get("steps")))
    error = next(_objects(interaction.get("errors")), {})
    created, updated = _word(interaction.get("created")), _word(interaction.get("updated"))
    return Summary(
        id=_word(interaction.get("id")),
        status=_word(interaction.get("status")),
        model=_word(interaction.get("model")).removeprefix("models/"),
        agent=_word(interaction.get("agent")),
        service_tier=_word(interaction.get("service_tier")),
        text="".join(_texts(steps)),
        total_tokens=_count(usage.get("total_tokens")),
        tokens=tuple(_tokens(usage)),
        grounding=_grounding(usage),
        tools=dict(Counter(_tools(steps))),
        steps=len(steps),
        created=created,
        updated=updated,
        seconds=_seconds(created, updated),
        error_code="" if error.get("code") is None else str(error["code"])[:LONGEST_NAME],
        error_message=_word(error.get("message")),
    )


def _tokens(usage: Json) -> Iterator[Tokens]:
    for kind, (total, by_modality) in KINDS.items():
        told = 0
        for each in _objects(usage.get(by_modality)):
            count = _count(each.get("tokens"))
            told += count
            if count:
                modality = _word(each.get("modality")).lower() or UNSPECIFIED
                yield Tokens(kind=kind, modality=modality, tokens=count)
        rest = _count(usage.get(total)) - told
        if rest > 0:
            yield Tokens(kind=kind, modality=UNSPECIFIED, tokens=rest)


def _grounding(usage: Json) -> dict[str, int]:
    counts = Counter[str]()
    for each in _objects(usage.get("grounding_tool_count")):
        counts[_word(each.get("type")) or UNSPECIFIED] += _count(each.get("count"))
    return dict(counts)


def _tools(steps: list[Json]) -> Iterator[str]:
    """A function by its own name, a tool of Gemini's by its type."""
    for step in steps:
        kind = _word(step.get("type"))
        if kind.endswith(CALLS):
            named = kind in ("function_call", "mcp_server_tool_call")
            yield (_word(step.get("name")) if named else "") or kind.removesuffix(CALLS)


def _texts(steps: list[Json]) -> Iterator[str]:
    for step in steps:
        if step.get("type") == "model_output":
            for part in _objects(step.get("content")):
                if part.get("type") == "text" and isinstance(part.get("text"), str):
                    yield part["text"]


def _seconds(created: str, updated: str) -> float | None:
    try:
        spent = datetime.fromisoformat(updated) - datetime.fromisoformat(created)
    except (ValueError, TypeError):  # absent, or one with a zone and one without
        return None
    return spent.total_seconds()


def _count(value: Any) -> int:
    """A count, also where JSON writes int64 as a string."""
    if isinstance(value, str) and value.isascii() and value.isdecimal():
        value = int(value[:18])
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _word(value: Any) -> str:
    return value[:LONGEST_NAME] if isinstance(value, str) else ""


def _object(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


def _objects(items: Any) -> Iterator[Json]:
    if isinstance(items, list):
        yield from (each for each in items if isinstance(each, dict))
