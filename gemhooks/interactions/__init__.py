"""An interaction as it happens: its event stream, typed, resumed, and folded into the whole."""

from gemhooks.interactions.assembly import Assembly, assemble
from gemhooks.interactions.events import (
    Completed,
    Created,
    Failure,
    InteractionEvent,
    StatusUpdate,
    StepDelta,
    StepStart,
    StepStop,
    Unknown,
    parse,
)
from gemhooks.interactions.following import follow
from gemhooks.interactions.summary import Summary, Tokens, summarise

__all__ = [
    "Assembly",
    "Completed",
    "Created",
    "Failure",
    "InteractionEvent",
    "StatusUpdate",
    "StepDelta",
    "StepStart",
    "StepStop",
    "Summary",
    "Tokens",
    "Unknown",
    "assemble",
    "follow",
    "parse",
    "summarise",
]
