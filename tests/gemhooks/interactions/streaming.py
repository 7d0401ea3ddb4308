"""Makes the stream of an interaction, as the reference says that Gemini sends it."""

import base64
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from gemhooks import jsontext
from gemhooks.errors import NotYet
from gemhooks.gemini import FetchedInteraction
from gemhooks.gemini.stream import DONE, Frame

Json = dict[str, Any]


def events_of(interaction: Json, *, piece: int = 5) -> list[Json]:
    """Every event of *interaction*, texts and arguments in pieces of *piece* characters."""
    steps = [step for step in interaction["steps"] if step.get("type") != "user_input"]
    head = {name: value for name, value in interaction.items() if name not in ("steps", "usage")}
    found: list[Json] = [
        {"event_type": "interaction.created", "interaction": head | {"status": "in_progress"}},
        {
            "event_type": "interaction.status_update",
            "interaction_id": interaction["id"],
            "status": "in_progress",
        },
    ]
    for index, step in enumerate(steps):
        found += _step(index, step, piece)
    usage = {"usage": interaction["usage"]} if "usage" in interaction else {}
    found.append({"event_type": "interaction.completed", "interaction": head | usage})
    return found


def _step(index: int, step: Json, piece: int) -> Iterator[Json]:
    start, deltas = _parted(step, piece)
    yield {"event_type": "step.start", "index": index, "step": start}
    for delta in deltas:
        yield {"event_type": "step.delta", "index": index, "delta": delta}
    yield {"event_type": "step.stop", "index": index}


def _parted(step: Json, piece: int) -> tuple[Json, list[Json]]:
    match step["type"]:
        case "model_output":
            return {"type": "model_output"}, [
                delta for content in step["content"] for delta in _content(content, piece)
            ]
        case "function_call":
            text = orjson.dumps(step["arguments"]).decode()
            deltas = [{"type": "arguments_delta", "arguments": each} for each in _cut(text, piece)]
            return step | {"arguments": {}}, deltas
        case "thought":
            summary = [{"type": "thought_summary", "content": each} for each in step["summary"]]
            signature = {"type": "thought_signature", "signature": step["signature"]}
            return {"type": "thought"}, [*summary, signature]
        case kind:
            known: Json = {name: step[name] for name in ("type", "id", "call_id") if name in step}
            rest = {name: value for name, value in step.items() if name not in known}
            return known, [{"type": kind, **rest}] if rest else []


def _content(content: Json, piece: int) -> Iterator[Json]:
    match content["type"]:
        case "text":
            for each in _cut(content["text"], piece):
                yield {"type": "text", "text": each}
            if "annotations" in content:
                yield {
                    "type": "text_annotation_delta",
                    "annotations": content["annotations"],
                }
        case "audio" if "data" in content:
            sound = base64.b64decode(content["data"])
            for start in range(0, max(len(sound), 1), piece):
                data = base64.b64encode(sound[start : start + piece]).decode()
                yield content | {"data": data}
        case _:
            yield content


def _cut(text: str, piece: int) -> Sequence[str]:
    return [text[start : start + piece] for start in range(0, max(len(text), 1), piece)]


@dataclass
class CutStreams:
    """A Gemini whose connections end after so many events each, then hold.

    An event's id is its place; kinds in *nameless* have none.
    """

    events: list[Json]
    cuts: list[int] = field(default_factory=list)
    nameless: tuple[str, ...] = ("interaction.status_update", "error")
    says_done: bool = True
    status: str = "completed"
    asked_after: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.sent = [
            event if event["event_type"] in self.nameless else event | {"event_id": f"e{place}"}
            for place, event in enumerate(self.events)
        ]

    @property
    def streams(self) -> "CutStreams":
        return self

    @property
    def interactions(self) -> "CutStreams":
        return self

    def frames(self, interaction_id: str, *, after: str = "") -> Iterator[Frame]:
        self.asked_after.append(after)
        begin = int(after[1:]) + 1 if after else 0
        cut = self.cuts.pop(0) if self.cuts else None
        for event in self.sent[begin : None if cut is None else begin + cut]:
            yield Frame(event["event_type"], jsontext.dumps(event).decode())
        if cut is None and self.says_done:
            yield Frame("done", DONE)

    def get(self, interaction_id: str, /) -> FetchedInteraction:
        if not self.status:
            raise NotYet("not_found")
        parsed = {"id": interaction_id, "status": self.status}
        return FetchedInteraction(interaction_id, orjson.dumps(parsed), parsed)
