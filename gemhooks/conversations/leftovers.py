"""What of a Gemini step has no field in the conversation format: kept in payloads, found again.

A payload of ours is ``{"gemini": {<what>: <object>}}``. Whoever shows a conversation may skip it.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

from gemhooks.conversations.messages import Chunk

KEY = "gemini"


class Kept(StrEnum):
    """What the object in the payload is."""

    STEP = "step"  # a whole step: a thought, a search, what came up last week
    CONTENT = "content"  # a whole part of a step's content: a file by its URI
    FIELDS = "fields"  # the rest of what the chunk before it shows
    STEP_FIELDS = "stepFields"  # the rest of the step whose content the chunks before it show
    OMITTED = "omitted"  # why a step is missing: the format can't hold it


def keep(what: Kept, value: Any) -> Chunk:
    """A payload of ours; pydantic's ValidationError where the format can't hold *value*."""
    return Chunk(payload={KEY: {what.value: value}})


def keep_rest(what: Kept, given: dict[str, Any], used: Iterable[str]) -> list[Chunk]:
    """The fields of *given* that are not in *used*, where there are any."""
    rest = {key: value for key, value in given.items() if key not in set(used)}
    return [keep(what, rest)] if rest else []


def kept(chunk: Chunk) -> tuple[Kept, dict[str, Any]] | None:
    """What a payload of ours holds; None for every other chunk."""
    inner = (chunk.payload or {}).get(KEY)
    if not isinstance(inner, dict) or len(inner) != 1 or len(chunk.payload or {}) != 1:
        return None
    [(what, value)] = inner.items()
    if what not in set(Kept) or not isinstance(value, dict):
        return None
    return Kept(what), value
