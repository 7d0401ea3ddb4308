"""A conversation for people: a row a chunk."""

from collections.abc import Iterator, Sequence
from typing import Any

from gemhooks.cli.tables import Format, show
from gemhooks.conversations import Blob, Chunk, Image, Message, ToolCall, ToolResponse, tool_name

COLUMNS = ("at", "role", "what", "said")
LONGEST = 500  # characters of a payload, of arguments or of a result


def show_messages(messages: Sequence[Message], form: Format) -> None:
    """Print *messages*: JSON is the format itself, exactly."""
    if form is Format.JSON:
        show([each.to_wire() for each in messages], COLUMNS, form)
    else:
        show([row for each in messages for row in _rows(each)], COLUMNS, form)


def _rows(message: Message) -> Iterator[dict[str, Any]]:
    for chunk in message.chunks:
        what = chunk.member or next(iter(chunk.model_extra or ()), "")
        yield {
            "at": message.event_time,
            "role": message.role,
            "what": what.replace("_", " "),
            "said": _said(chunk),
        }


def _said(chunk: Chunk) -> str:
    value = getattr(chunk, chunk.member) if chunk.member else chunk.model_extra
    match value:
        case str():
            return value
        case Blob() | Image():
            return f"{value.mime_type}, {len(value.data):,} bytes"
        case ToolCall():
            return _cut(f"{tool_name(value)}({value.args or {}})")
        case ToolResponse():
            return _cut(f"{tool_name(value)}: {value.response}")
        case _:
            return _cut(str(value))


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
