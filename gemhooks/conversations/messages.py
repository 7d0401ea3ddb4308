"""The Message resource of CX Agent Studio, whole.

Source: the REST reference of ces.googleapis.com (v1, projects.locations.apps, Message).
"""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator
from pydantic.alias_generators import to_camel

from gemhooks.conversations.values import Base64, JsonObject, Text, Time
from gemhooks.conversations.wire import Wire, at_most_one

MEMBERS = (
    "text",
    "transcript",
    "blob",
    "payload",
    "image",
    "tool_call",
    "tool_response",
    "agent_transfer",
    "updated_variables",
    "default_variables",
)


class Blob(Wire):
    """Bytes of any type."""

    mime_type: Text
    data: Annotated[Base64, Field(repr=False)] = b""  # ProtoJSON leaves out what is empty


class Image(Wire):
    """A picture; the format takes these three types and no other."""

    mime_type: Literal["image/png", "image/jpeg", "image/webp"]
    data: Annotated[Base64, Field(repr=False)] = b""


class ToolsetTool(Wire):
    """A tool of a toolset."""

    toolset: Text  # projects/*/locations/*/apps/*/toolsets/*
    tool_id: Text | None = None


class _OfTool(Wire):
    """What a call and its response both say of the tool: `tool` or `toolset_tool`, never both."""

    tool: Text | None = None  # projects/*/locations/*/apps/*/tools/*
    toolset_tool: ToolsetTool | None = None
    id: Text | None = None
    display_name: Text | None = None  # of a client function: its name
    parent_tool_call_id: Text | None = None  # of the call that a sub-agent works for
    agent_name: Text | None = None  # of the sub-agent

    @model_validator(mode="after")
    def _check_tool(self) -> Self:
        at_most_one(self, ("tool", "toolset_tool"))
        return self


class ToolCall(_OfTool):
    """The client or the agent shall run a tool."""

    args: JsonObject | None = Field(default=None, repr=False)


class ToolResponse(_OfTool):
    """What came of a tool call: `output`, `error`, or else the whole object is the result."""

    response: JsonObject = Field(repr=False)


class AgentTransfer(Wire):
    """From here on another agent handles the conversation."""

    target_agent: Text  # projects/*/locations/*/apps/*/agents/*
    display_name: Text | None = None


class Chunk(Wire):
    """A piece of a message: exactly one of the members."""

    text: Text | None = None
    transcript: Text | None = None
    blob: Blob | None = None
    payload: JsonObject | None = None
    image: Image | None = None
    tool_call: ToolCall | None = None
    tool_response: ToolResponse | None = None
    agent_transfer: AgentTransfer | None = None
    updated_variables: JsonObject | None = None
    default_variables: JsonObject | None = None

    @property
    def member(self) -> str | None:
        """Which one is set; None where it is one that this release doesn't know."""
        return at_most_one(self, MEMBERS)

    @model_validator(mode="after")
    def _check_member(self) -> Self:
        if self.member is None and not self.model_extra:
            raise ValueError(f"exactly one of {', '.join(map(to_camel, MEMBERS))} must be set")
        return self


class Message(Wire):
    """What one side said or did."""

    role: Text | None = None  # user, agent
    chunks: tuple[Chunk, ...] = ()
    event_time: Time | None = None  # RFC 3339, UTC, up to nanoseconds
