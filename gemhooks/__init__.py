"""What the author of a consumer imports."""

from gemhooks import events
from gemhooks.consumers import Consumers
from gemhooks.errors import NotYet, Reject, Retry
from gemhooks.functions import CallContext, Functions

__all__ = ["CallContext", "Consumers", "Functions", "NotYet", "Reject", "Retry", "events"]
