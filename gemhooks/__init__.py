"""What the author of a consumer imports."""

from gemhooks import events
from gemhooks.consumers import Consumers
from gemhooks.errors import NotYet, Reject, Retry

__all__ = ["Consumers", "NotYet", "Reject", "Retry", "events"]
