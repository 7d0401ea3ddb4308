"""What the author of a consumer imports; each name is loaded when it is first asked for.

So the receiver, which needs none of them, carries none of them: docs/decisions/013.
"""

import importlib
from typing import TYPE_CHECKING, Any

import gemhooks.sparing  # noqa: F401 - before anything imports structlog

if TYPE_CHECKING:
    from gemhooks import events
    from gemhooks.consumers import Consumers
    from gemhooks.errors import NotYet, Reject, Retry
    from gemhooks.functions import CallContext, Functions
    from gemhooks.handling import current_message, publish
    from gemhooks.messages import Message

__all__ = [
    "CallContext",
    "Consumers",
    "Functions",
    "Message",
    "NotYet",
    "Reject",
    "Retry",
    "current_message",
    "events",
    "publish",
]

_MODULES = {
    "CallContext": "functions",
    "Consumers": "consumers",
    "Functions": "functions",
    "Message": "messages",
    "NotYet": "errors",
    "Reject": "errors",
    "Retry": "errors",
    "current_message": "handling",
    "publish": "handling",
}


def __getattr__(name: str) -> Any:
    if name == "events":
        return importlib.import_module("gemhooks.events")
    if name not in _MODULES:
        raise AttributeError(f"module 'gemhooks' has no attribute {name!r}")
    found = getattr(importlib.import_module(f"gemhooks.{_MODULES[name]}"), name)
    globals()[name] = found  # asked for once
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
