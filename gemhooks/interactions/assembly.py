"""Folds a stream's events into the interaction that a GET would return."""

import base64
import binascii
import copy
from collections.abc import Callable, Iterable
from typing import Any

from gemhooks import jsontext
from gemhooks.interactions.events import (
    Completed,
    Created,
    Failure,
    InteractionEvent,
    StatusUpdate,
    StepDelta,
    StepStart,
)

Json = dict[str, Any]
ARGUMENTS = "arguments_delta"


def assemble(events: Iterable[InteractionEvent]) -> Json:
    """The interaction as far as *events* tell: id, status, model or agent, steps, usage.

    A stream has only the model's steps; a GET has the user's too.
    """
    assembly = Assembly()
    for event in events:
        assembly.add(event)
    return assembly.interaction


class Assembly:
    """An interaction that grows with each event."""

    def __init__(self) -> None:
        self._head: Json = {}
        self._steps: dict[int, Json] = {}
        self._pieces: dict[int, str] = {}  # of arguments that are not whole yet
        self._given_steps: list[Json] | None = None
        self._usage: Json | None = None
        self._errors: list[Json] = []

    def add(self, event: InteractionEvent) -> None:
        """Take in one event; what it does not understand changes nothing."""
        if event.total_usage is not None:
            self._usage = event.total_usage
        match event:
            case Created() | Completed():
                self._resource(event.interaction)
            case StatusUpdate():
                self._status(event)
            case StepStart():
                self._steps[event.index] = copy.deepcopy(event.step)
                self._pieces.pop(event.index, None)
            case StepDelta():
                self._delta(event.index, event.delta)
            case Failure():
                self._errors.append(event.error)

    @property
    def interaction(self) -> Json:
        """A copy of what is known so far."""
        found = copy.deepcopy(self._head)
        if self._usage is not None:
            found["usage"] = self._usage
        if self._errors and "errors" not in found:
            found["errors"] = list(self._errors)
        found["steps"] = self._given_steps or [self._step(each) for each in sorted(self._steps)]
        return found

    def _resource(self, interaction: Json) -> None:
        """Each event names what it knows; the steps only if it has them all."""
        given = dict(interaction)
        steps = given.pop("steps", None)
        if isinstance(steps, list) and steps:
            self._given_steps = steps
        usage = given.pop("usage", None)
        if isinstance(usage, dict) and usage:
            self._usage = usage
        self._head.update(given)

    def _status(self, event: StatusUpdate) -> None:
        if event.interaction_id:
            self._head["id"] = event.interaction_id
        self._head["status"] = event.status
        usage = (event.model_extra or {}).get("usage")
        if isinstance(usage, dict) and usage:
            self._usage = usage

    def _delta(self, index: int, delta: Json) -> None:
        step = self._steps.setdefault(index, {"type": "model_output"})
        kind = delta.get("type")
        if kind == ARGUMENTS:
            piece = delta.get("arguments")
            if isinstance(piece, str):
                self._pieces[index] = self._pieces.get(index, "") + piece
        elif isinstance(kind, str) and kind in FOLDS:
            FOLDS[kind](step, delta)
        elif kind == step.get("type"):
            _merge(step, delta)
        elif step.get("type") == "model_output":  # content of a kind that is newer than we are
            _media(step, delta)

    def _step(self, index: int) -> Json:
        step = copy.deepcopy(self._steps[index])
        joined = self._pieces.get(index)
        if joined:
            step["arguments"] = _parsed(joined)
        return step


def _parsed(arguments: str) -> Any:
    try:
        return jsontext.loads(arguments)
    except jsontext.Malformed:  # kept as it came, for a person to see
        return arguments


def _content(step: Json) -> list[Json]:
    if not isinstance(step.get("content"), list):
        step["content"] = []
    content: list[Json] = step["content"]
    return content


def _text(step: Json, delta: Json) -> None:
    """Text continues the text before it; after anything else it is a part of its own."""
    content = _content(step)
    if not content or content[-1].get("type") != "text":
        content.append({"type": "text", "text": ""})
    content[-1]["text"] = f"{content[-1].get('text') or ''}{delta.get('text') or ''}"


def _annotations(step: Json, delta: Json) -> None:
    content = _content(step)
    if not content or content[-1].get("type") != "text":
        content.append({"type": "text", "text": ""})
    found = content[-1].get("annotations") or []
    content[-1]["annotations"] = [*found, *(delta.get("annotations") or [])]


def _media(step: Json, delta: Json) -> None:
    _content(step).append(copy.deepcopy(delta))


def _audio(step: Json, delta: Json) -> None:
    """Audio comes in pieces, each with a base64 of its own."""
    content = _content(step)
    last = content[-1] if content else {}
    if {last.get("type"), delta.get("type")} != {"audio"} or not _both_have_data(last, delta):
        _media(step, delta)
        return
    try:
        sound = base64.b64decode(last["data"], validate=True) + base64.b64decode(delta["data"])
    except (binascii.Error, ValueError):
        _media(step, delta)
        return
    last.update(delta | {"data": base64.b64encode(sound).decode()})


def _both_have_data(one: Json, other: Json) -> bool:
    return isinstance(one.get("data"), str) and isinstance(other.get("data"), str)


def _summary(step: Json, delta: Json) -> None:
    found = step.get("summary") or []
    content = delta.get("content")
    step["summary"] = found if content is None else [*found, content]


def _signature(step: Json, delta: Json) -> None:
    if delta.get("signature") is not None:
        step["signature"] = delta["signature"]


def _merge(step: Json, delta: Json) -> None:
    """A tool's call or result: lists and objects grow, the rest is as last told."""
    for name, value in delta.items():
        before = step.get(name)
        if name == "type":
            continue
        if isinstance(before, list) and isinstance(value, list):
            step[name] = before + value
        elif isinstance(before, dict) and isinstance(value, dict):
            step[name] = before | value
        elif name == "result" and isinstance(before, str) and isinstance(value, str):
            step[name] = before + value
        else:
            step[name] = copy.deepcopy(value)


TOOLS = (
    "code_execution",
    "url_context",
    "google_search",
    "google_maps",
    "file_search",
    "mcp_server_tool",
    "tool_search",
    "retrieval",
    "processing",
)
FOLDS: dict[str, Callable[[Json, Json], None]] = {
    "text": _text,
    "text_annotation_delta": _annotations,
    "text_annotation": _annotations,  # its older name
    "audio": _audio,
    "image": _media,
    "video": _media,
    "document": _media,
    "thought_summary": _summary,
    "thought_signature": _signature,
    "function_result": _merge,
    **{f"{tool}_{side}": _merge for tool in TOOLS for side in ("call", "result")},
}
