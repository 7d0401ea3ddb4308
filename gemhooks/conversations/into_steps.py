"""Messages as the steps of an interaction. What is lost on the way: docs/conversations.md."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from gemhooks.conversations import contents
from gemhooks.conversations.from_interactions import USER
from gemhooks.conversations.leftovers import Kept, kept
from gemhooks.conversations.messages import Chunk, Message, ToolCall, ToolResponse


def to_steps(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """The steps that *messages* stand for, fit for the ``input`` of ``interactions.create``.

    A message's neighbouring texts, images and blobs are one step. Calls without an id get one.
    """
    writer = _Writer()
    for message in messages:
        writer.add(message)
    return writer.steps


def result_of(response: ToolResponse) -> tuple[Any, bool]:
    """The result in *response*, and whether it is an error."""
    said = response.response
    if "error" in said:
        return (said["error"] if "output" not in said else said), True
    return said.get("output", said), False


def tool_name(tool: ToolCall | ToolResponse) -> str:
    """The name of the function: of a client function, the display name is its name."""
    if tool.display_name:
        return tool.display_name
    if tool.toolset_tool is not None:
        return tool.toolset_tool.tool_id or ""
    return (tool.tool or "").rpartition("/")[2]


@dataclass
class _Writer:
    steps: list[dict[str, Any]] = field(default_factory=list)
    content: list[dict[str, Any]] | None = None  # of the last step, while it may grow
    last: dict[str, Any] | None = None  # the part or the step that fields may follow
    unanswered: list[tuple[str, str]] = field(default_factory=list)  # (name, id) of ours

    def add(self, message: Message) -> None:
        self.content = None
        for chunk in message.chunks:
            self._add(chunk, "user_input" if message.role == USER else "model_output")
        self.content = self.last = None

    def _add(self, chunk: Chunk, kind: str) -> None:
        part = contents.to_part(chunk)
        if part is not None:
            self._part(part, kind)
        elif chunk.tool_call is not None:
            self._step(_call(chunk.tool_call, self._new_id(chunk.tool_call)))
        elif chunk.tool_response is not None:
            self._step(_result(chunk.tool_response, self._known_id(chunk.tool_response)))
        elif (found := kept(chunk)) is not None:
            self._kept(*found, kind=kind)

    def _part(self, part: dict[str, Any], kind: str) -> None:
        if self.content is None:
            self.content = []
            self.steps.append({"type": kind, "content": self.content})
        self.content.append(part)
        self.last = part

    def _step(self, step: dict[str, Any]) -> None:
        self.steps.append(step)
        self.content, self.last = None, step

    def _kept(self, what: Kept, value: dict[str, Any], *, kind: str) -> None:
        if what is Kept.STEP:
            self._step(dict(value))
        elif what is Kept.CONTENT:
            self._part(dict(value), kind)
        elif what is Kept.FIELDS and self.last is not None:
            _fill(self.last, value)
        elif what is Kept.STEP_FIELDS and self.content is not None:
            _fill(self.steps[-1], value)

    def _new_id(self, call: ToolCall) -> str:
        if call.id:
            return call.id
        key = f"call_{len(self.steps)}"
        self.unanswered.append((tool_name(call), key))
        return key

    def _known_id(self, response: ToolResponse) -> str:
        """Its own, or that of the oldest call of the same tool that had none either."""
        if response.id:
            return response.id
        name = tool_name(response)
        for each in self.unanswered:
            if each[0] == name:
                self.unanswered.remove(each)
                return each[1]
        return f"call_{len(self.steps)}"


def _fill(target: dict[str, Any], fields: dict[str, Any]) -> None:
    """What a chunk shows counts; a payload adds to it and changes nothing."""
    for name, value in fields.items():
        target.setdefault(name, value)


def _call(call: ToolCall, key: str) -> dict[str, Any]:
    name = tool_name(call)
    return {"type": "function_call", "id": key, "name": name, "arguments": call.args or {}}


def _result(response: ToolResponse, key: str) -> dict[str, Any]:
    result, failed = result_of(response)
    step: dict[str, Any] = {"type": "function_result", "call_id": key}
    if name := tool_name(response):
        step["name"] = name
    step["result"] = result if _fits(result) else {"result": result}
    return step | {"is_error": True} if failed else step


def _fits(result: Any) -> bool:
    """True for what Google's client sends as a result: an object, a text, a list of contents."""
    if isinstance(result, list):
        return all(isinstance(each, dict) and "type" in each for each in result)
    return isinstance(result, str | dict)
