"""Conversations and interactions of every shape."""

import base64
from typing import Any, TypeVar

from hypothesis import strategies as st
from pydantic import BaseModel

from gemhooks.conversations import (
    AgentTransfer,
    Blob,
    Chunk,
    Image,
    Message,
    ToolCall,
    ToolResponse,
    ToolsetTool,
)

W = TypeVar("W", bound=BaseModel)


def made(kind: type[W], **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[W]:
    """Not ``st.builds``: it would fill in the camelCase names of the signature as well."""
    return st.fixed_dictionaries(fields).map(kind.model_validate)


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
NAMES = st.text("abcdefgh_/ä", min_size=1, max_size=12)
NUMBERS = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
OBJECTS: st.SearchStrategy[dict[str, Any]] = st.dictionaries(TEXTS, JSON, max_size=3)
BYTES = st.binary(max_size=20)
IMAGE_TYPES = ("image/png", "image/jpeg", "image/webp")
OTHER_TYPES = ("image/heic", "image/gif", "audio/wav", "video/mp4", "application/pdf", "text/csv")
MAYBE_NAME = st.none() | NAMES

_TOOL: dict[str, Any] = {"id": MAYBE_NAME, "display_name": MAYBE_NAME}
TOOLSETS = made(ToolsetTool, toolset=NAMES, tool_id=MAYBE_NAME)
TOOLS: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.just({}),
    st.fixed_dictionaries({"tool": NAMES}),
    st.fixed_dictionaries({"toolset_tool": TOOLSETS}),
)


@st.composite
def tool_calls(draw: st.DrawFn) -> ToolCall:
    rest = draw(st.fixed_dictionaries({**_TOOL, "args": st.none() | OBJECTS}))
    return ToolCall.model_validate({**draw(TOOLS), **rest})


@st.composite
def tool_responses(draw: st.DrawFn) -> ToolResponse:
    rest = draw(st.fixed_dictionaries({**_TOOL, "response": OBJECTS}))
    return ToolResponse.model_validate({**draw(TOOLS), **rest})


IMAGES = made(Image, mime_type=st.sampled_from(IMAGE_TYPES), data=BYTES)
BLOBS = made(Blob, mime_type=st.sampled_from(OTHER_TYPES), data=BYTES)
CHUNKS = st.one_of(
    made(Chunk, text=TEXTS),
    made(Chunk, transcript=TEXTS),
    made(Chunk, blob=BLOBS),
    made(Chunk, image=IMAGES),
    made(Chunk, payload=OBJECTS),
    made(Chunk, tool_call=tool_calls()),
    made(Chunk, tool_response=tool_responses()),
    made(
        Chunk,
        agent_transfer=made(AgentTransfer, target_agent=NAMES, display_name=MAYBE_NAME),
    ),
    made(Chunk, updated_variables=OBJECTS),
    made(Chunk, default_variables=OBJECTS),
)
FRACTIONS = st.just("") | st.text("0123456789", min_size=1, max_size=9).map(".{}".format)
TIMES = st.builds(
    "{}{}{}".format,
    st.datetimes().map(lambda when: when.replace(microsecond=0).isoformat()),
    FRACTIONS,
    st.just("Z"),
)
MESSAGES = made(
    Message,
    role=st.sampled_from([None, "user", "agent"]),
    chunks=st.lists(CHUNKS, max_size=4).map(tuple),
    event_time=st.none() | TIMES,
)

# Messages that have a counterpart in an interaction's steps, whole.
_CONTENT = st.lists(
    made(Chunk, text=TEXTS) | made(Chunk, image=IMAGES) | made(Chunk, blob=BLOBS),
    min_size=1,
    max_size=4,
).map(tuple)
_CALL = made(Chunk, tool_call=made(ToolCall, id=NAMES, display_name=NAMES, args=OBJECTS))
_RESULTS = TEXTS | OBJECTS | st.just([{"type": "text", "text": "twenty"}])
_RESPONSE = made(
    Chunk,
    tool_response=made(
        ToolResponse,
        id=NAMES,
        display_name=MAYBE_NAME,
        response=st.builds(lambda k, v: {k: v}, st.sampled_from(["output", "error"]), _RESULTS),
    ),
)
COUNTERPARTS = st.one_of(
    made(Message, role=st.sampled_from(["user", "agent"]), chunks=_CONTENT),
    made(Message, role=st.just("agent"), chunks=_CALL.map(lambda chunk: (chunk,))),
    made(Message, role=st.just("user"), chunks=_RESPONSE.map(lambda chunk: (chunk,))),
)

# An interaction's steps, as Gemini writes them.
_BASE64 = BYTES.map(lambda raw: base64.b64encode(raw).decode())
_NOTES = st.lists(
    st.fixed_dictionaries(
        {"type": st.sampled_from(["speech_metadata", "file_citation"]), "end_index": st.integers()}
    ),
    max_size=2,
)


def _fields(fixed: dict[str, Any], **optional: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    given = {name: each if _is_strategy(each) else st.just(each) for name, each in fixed.items()}
    return st.fixed_dictionaries(given, optional=optional)


def _is_strategy(value: Any) -> bool:
    return isinstance(value, st.SearchStrategy)


_MEDIA = [
    _fields(
        {"type": kind},
        mime_type=st.sampled_from(types),
        data=_BASE64 | st.just("no base64!"),
        uri=NAMES,
    )
    for kind, types in {
        "image": (*IMAGE_TYPES, "image/heic", "image/heif", "image/bmp", "image/tiff", "x/odd"),
        "audio": ("audio/wav", "audio/l16"),
        "video": ("video/mp4",),
        "document": ("application/pdf", "text/csv", "audio/wav"),
    }.items()
]
PARTS = st.one_of(
    _fields({"type": "text", "text": TEXTS}, annotations=_NOTES),
    *_MEDIA,
    _fields({"type": "hologram"}, depth=NUMBERS),
    OBJECTS,
)
STEPS = st.one_of(
    _fields({"type": "user_input"}, content=st.lists(PARTS, max_size=3)),
    _fields(
        {"type": "model_output"},
        content=st.lists(PARTS, max_size=3) | JSON,
        error=st.fixed_dictionaries({"code": st.integers(0, 16)}),
    ),
    _fields({"type": "thought"}, signature=_BASE64, summary=st.lists(PARTS, max_size=1)),
    _fields(
        {"type": "function_call", "id": NAMES, "name": TEXTS, "arguments": OBJECTS},
        signature=_BASE64,
        parent_tool_call_id=NAMES,
        agent_name=NAMES,
    ),
    _fields({"type": "function_call"}, id=JSON, name=JSON, arguments=JSON),
    _fields(
        {
            "type": "function_result",
            "call_id": NAMES,
            "result": TEXTS | OBJECTS | st.lists(_fields({"type": "text", "text": TEXTS})),
        },
        name=TEXTS,
        is_error=st.booleans() | st.none(),
    ),
    _fields(
        {"type": st.sampled_from(["google_search_call", "mcp_server_tool_call", "brand_new"])},
        id=NAMES,
        arguments=OBJECTS,
    ),
    OBJECTS,
)
