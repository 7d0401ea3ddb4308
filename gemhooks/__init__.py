"""What the author of a consumer imports."""

import gemhooks.sparing  # noqa: F401 - before anything imports structlog
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
