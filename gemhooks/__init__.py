"""What the author of a consumer imports."""

from gemhooks import events
from gemhooks.consumers import Consumers
from gemhooks.errors import NotYet, Reject, Retry
from gemhooks.functions import CallContext, Functions
from gemhooks.messages import Message
from gemhooks.messages import current as current_message

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
]
