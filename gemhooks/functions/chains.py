"""Interactions that continue one another, and what is remembered of each link."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class SendState(StrEnum):
    """Where a continuation stands."""

    SENDING = "sending"
    NOT_SENT = "not_sent"  # Gemini surely has not got it
    SENT = "sent"
    LOST = "lost"  # the answer did not come: its event is waited for
    UNKNOWN = "unknown"  # nor did the event: a person must look
    GIVEN_UP = "given_up"  # by a person


@dataclass(frozen=True, slots=True)
class Place:
    """Where an interaction stands in its chain; the first is turn 1."""

    root_id: str
    turn: int = 1
    started_at: float | None = None  # Unix seconds; None: now


@dataclass(frozen=True, slots=True)
class Continuation:
    """The answer to one interaction's calls, as the ledger knows it; times are Unix seconds."""

    id: int  # what people name it by
    interaction_id: str
    key: str  # travels in user_metadata, so that its event is known
    state: SendState
    lease_until: float
    lost_at: float | None
    successor_id: str | None
    root_id: str
    turn: int
    chain_started_at: float
    error: str
    created_at: float
    updated_at: float

    def next_place(self) -> Place:
        """The place of its successor."""
        return Place(self.root_id, self.turn + 1, self.chain_started_at)


@dataclass(frozen=True, slots=True)
class Begun:
    """The ledger's answer to who wants to send a continuation."""

    continuation: Continuation
    granted: bool = False
    busy: float = 0.0  # seconds until it is worth asking again, where it is


class ContinuationLedger(Protocol):
    """At most one continuation for each interaction. All methods raise LedgerUnavailable."""

    def begin(self, interaction_id: str, place: Place, *, lease: float, wait: float) -> Begun:
        """Take it for *lease* seconds; of several that ask, one gets it.

        Who does not come back within the lease leaves it LOST, and after *wait* more UNKNOWN.
        """
        ...

    def sent(self, interaction_id: str, successor_id: str) -> Continuation | None:
        """Gemini took it; None where another successor was known before."""
        ...

    def lost(self, interaction_id: str) -> Continuation | None:
        """Nobody knows whether Gemini took it."""
        ...

    def not_sent(self, interaction_id: str, error: str) -> Continuation | None:
        """Gemini surely did not take it: it may be sent again."""
        ...

    def recognise(self, key: str, successor_id: str) -> Continuation | None:
        """The continuation with *key*; the first successor that is seen is its own."""
        ...

    def leading_to(self, interaction_id: str) -> Continuation | None:
        """The continuation whose successor *interaction_id* is."""
        ...

    def of(self, interaction_id: str) -> Continuation | None:
        """The continuation that answers *interaction_id*."""
        ...
