"""The Message format of CX Agent Studio: read, written, and made of Gemini's interactions."""

from gemhooks.conversations.answering import answer, respond
from gemhooks.conversations.from_interactions import to_messages
from gemhooks.conversations.into_steps import result_of, to_steps, tool_name
from gemhooks.conversations.messages import (
    AgentTransfer,
    Blob,
    Chunk,
    Image,
    Message,
    ToolCall,
    ToolResponse,
    ToolsetTool,
)

__all__ = [
    "AgentTransfer",
    "Blob",
    "Chunk",
    "Image",
    "Message",
    "ToolCall",
    "ToolResponse",
    "ToolsetTool",
    "answer",
    "respond",
    "result_of",
    "to_messages",
    "to_steps",
    "tool_name",
]
