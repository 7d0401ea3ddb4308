"""Notes that a fetch has got further than before, so that it is not taken for one that kills."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from gemhooks import events
from gemhooks.errors import LedgerUnavailable
from gemhooks.handling import current_message


class Starts(Protocol):
    """The ledger's count of starts that did not end."""

    def forget_starts(self, queue: str, key: str, /) -> None:
        """They count no more; LedgerUnavailable while the database is away."""
        ...


@dataclass(frozen=True)
class Progress:
    """Of what the messages of *queue* are about."""

    starts: Starts
    queue: str

    def note(self) -> None:
        """The present message's earlier starts count no more; outside of a handler, nothing."""
        with suppress(LookupError, LedgerUnavailable):
            message = current_message()
            subject = events.parse(message.body).subject
            self.starts.forget_starts(self.queue, message.key_of(subject))


def unnoted() -> None:
    """Nobody counts."""
