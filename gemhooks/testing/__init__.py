"""For tests of consumers: run a handler on an event with no broker, and see what became of it.

The fixtures of :mod:`gemhooks.testing.plugin` come with the package: pytest finds them by itself.
"""

from gemhooks.testing.factories import VARIANTS, body, event, message
from gemhooks.testing.handling import Ended, handle
from gemhooks.testing.publishers import MemoryPublisher

__all__ = ["VARIANTS", "Ended", "MemoryPublisher", "body", "event", "handle", "message"]
