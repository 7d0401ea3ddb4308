"""The event stream of an interaction: what happened, in small pieces, from any point on.

All events follow from what is stored of the interaction, so a stream that was cut can go on.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gemhooks.simulator.refusals import invalid
from gemhooks.simulator.state import Interaction, Step
from gemhooks.simulator.variants import Variants

Event = dict[str, Any]

INPUTS = frozenset({"user_input", "function_result"})
DONE = b"event: done\ndata: [DONE]\n\n"
LETTERS_AT_ONCE = 12  # of a function call's arguments
NAMELESS = frozenset({"interaction.status_update", "error"})  # come without an event_id
NAMES = {"in_progress": "interaction.in_progress", "requires_action": "interaction.requires_action"}
WORD = re.compile(r"\S+\s*|\s+")  # with the space behind it: joined again, nothing is missing
DELTA_FIELDS = (
    "arguments",
    "result",
    "signature",
    "is_error",
    "name",
    "server_name",
    "retrieval_type",
)


def events(interaction: Interaction, summary: Mapping[str, Any], variants: Variants) -> list[Event]:
    """All events up to now; *summary* is the interaction without its steps."""
    found = list(_events(interaction, summary))
    for number, event in enumerate(found):
        if event["event_type"] not in NAMELESS:
            event["event_id"] = f"evt_{number}"
    return [_shaped(event, variants) for event in found]


def position(found: Sequence[Event], last_event_id: str | None) -> int:
    """How many of the events came up to *last_event_id*; raises a Refusal if it is none of them."""
    if not last_event_id:
        return 0
    for number, event in enumerate(found):
        if event.get("event_id") == last_event_id:
            return number + 1
    raise invalid(f"'{last_event_id}' is the id of no event.")


def encode(event: Event) -> bytes:
    name = event.get("event_type") or event.get("type")
    return f"event: {name}\ndata: {json.dumps(event, separators=(',', ':'))}\n\n".encode()


def _events(interaction: Interaction, summary: Mapping[str, Any]) -> Iterator[Event]:
    yield {"event_type": "interaction.created", "interaction": _opening(interaction, summary)}
    yield _status(interaction, "in_progress")
    if interaction.is_open:
        return
    steps = [step for step in interaction.steps if step.get("type") not in INPUTS]
    for index, step in enumerate(steps):
        yield from _step(index, step)
    yield from map(dict, interaction.extra_events)
    for error in interaction.errors:
        yield {"event_type": "error", "error": error}
    if interaction.status != "completed":
        yield _status(interaction, interaction.status)
    yield {"event_type": "interaction.completed", "interaction": dict(summary)}


def _opening(interaction: Interaction, summary: Mapping[str, Any]) -> Mapping[str, Any]:
    """The interaction as it was when it was created: the same however late one looks."""
    kept = {name: summary[name] for name in ("id", "object", "model", "agent") if name in summary}
    return kept | {"status": "in_progress", "created": interaction.created}


def _status(interaction: Interaction, status: str) -> Event:
    return {
        "event_type": "interaction.status_update",
        "interaction_id": interaction.id,
        "status": status,
    }


def _step(index: int, step: Step) -> Iterator[Event]:
    yield {"event_type": "step.start", "index": index, "step": _emptied(step)}
    for delta in deltas(step):
        yield {"event_type": "step.delta", "index": index, "delta": delta}
    yield {"event_type": "step.stop", "index": index}


def _emptied(step: Step) -> Step:
    """The step as it begins; its deltas bring the rest."""
    if step.get("type") in ("model_output", "thought"):
        return {"type": step["type"]}
    start = {name: value for name, value in step.items() if name != "signature"}
    for name in ("arguments", "result"):
        if name in start:
            start[name] = type(start[name])()
    return start


def deltas(step: Step) -> Iterator[Mapping[str, Any]]:
    """The pieces in which *step* arrives, each of a type of its own."""
    match step.get("type"):
        case "model_output":
            for content in step.get("content", ()):
                yield from _content(content)
        case "thought":
            for content in step.get("summary", ()):
                yield {"type": "thought_summary", "content": content}
            if "signature" in step:
                yield {"type": "thought_signature", "signature": step["signature"]}
        case "function_call":
            text = json.dumps(step["arguments"])
            for start in range(0, len(text), LETTERS_AT_ONCE):
                piece = text[start : start + LETTERS_AT_ONCE]
                yield {"type": "arguments_delta", "arguments": piece}
        case kind:
            yield {"type": kind} | {name: step[name] for name in DELTA_FIELDS if name in step}


def _content(content: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    if content.get("type") != "text":
        yield content
        return
    for word in WORD.findall(content["text"]):
        yield {"type": "text", "text": word}
    if content.get("annotations"):
        yield {"type": "text_annotation_delta", "annotations": content["annotations"]}


def _shaped(event: Event, variants: Variants) -> Event:
    if variants.stream_lifecycle == "named" and event["event_type"] == "interaction.status_update":
        event["event_type"] = NAMES.get(event["status"], event["event_type"])
    if variants.stream_key == "type":
        event["type"] = event.pop("event_type")
    return event
