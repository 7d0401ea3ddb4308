"""Scripted conversations: what the simulated model says, calls or breaks on."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class _Turn(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    delay: float = 0.0  # seconds, on top of the simulator's own
    status_before: str = "in_progress"  # or queued, idle: until the turn is over
    announce: bool | str = True  # False: the event is lost for ever; a text: it is of that type
    lag: float = Field(default=0.0, ge=0)  # seconds that a GET is behind the event


class Say(_Turn):
    """The model answers; `{results}` in the text becomes what the functions returned."""

    kind: Literal["say"] = "say"
    text: str


class Call(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    arguments: Mapping[str, Any] = {}


class CallFunctions(_Turn):
    """The model waits for these functions, all at once."""

    kind: Literal["call"] = "call"
    calls: tuple[Call, ...]


class Fail(_Turn):
    """The interaction breaks."""

    kind: Literal["fail"] = "fail"
    code: int = 13
    message: str = "The model broke, as its script says."


class Show(_Turn):
    """The interaction ends with these steps, in any status, known to anyone or not."""

    kind: Literal["show"] = "show"
    status: str = "completed"
    steps: tuple[Mapping[str, Any], ...] = ()
    samples: bool = False  # one step of every kind that there is
    events: tuple[Mapping[str, Any], ...] = ()  # come in the stream before its end


Turn = Say | CallFunctions | Fail | Show


class Script(BaseModel):
    """When the input contains *when*, take these turns; function results lead to the next one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    when: str
    turns: tuple[Turn, ...]

    def turn(self, number: int) -> Turn:
        return self.turns[number] if number < len(self.turns) else Say(text="{results}")


def echo(text: str) -> Script:
    """What an input without a script of its own gets."""
    return Script(when="", turns=(Say(text=f"You said: {text}"),))


def find(scripts: Sequence[Script], text: str) -> Script:
    return next((script for script in scripts if script.when in text), None) or echo(text)


def spoken(say: Say, results: Sequence[Mapping[str, Any]]) -> str:
    values = {result.get("name") or result["call_id"]: result["result"] for result in results}
    # str.replace, not str.format: braces are common in what people make a model say.
    return say.text.replace("{results}", json.dumps(values))
