"""What is remembered of each call, so that its effect happens once."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from gemhooks.functions.calls import Call
from gemhooks.functions.results import FINE, Outcome, Result


class CallState(StrEnum):
    """Where a call stands."""

    RUNNING = "running"
    DONE = "done"
    APPROVAL = "approval"  # waits for a person's yes
    READY = "ready"  # has it, or is to be run again because a person says so
    UNKNOWN = "unknown"  # was begun, and nobody knows how it ended


PARKED = frozenset({CallState.APPROVAL, CallState.UNKNOWN})


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One call as the ledger knows it; times are Unix seconds."""

    id: int  # what people name it by
    interaction_id: str
    call_id: str
    function: str
    arguments: str  # JSON, for people: its beginning
    state: CallState
    starts: int
    lease_until: float
    outcome: str
    is_error: bool
    result: Any
    result_url: str
    created_at: float
    started_at: float | None
    ended_at: float | None

    def answer_to(self, call: Call) -> Result:
        """What was recorded, as the answer to *call*."""
        outcome = Outcome(self.outcome)
        return Result(call.id, call.name, self.result, outcome not in FINE, outcome)


@dataclass(frozen=True, slots=True)
class CallClaim:
    """The ledger's answer to who wants to run a call."""

    record: CallRecord
    granted: bool = False
    busy: float = 0.0  # seconds until it is worth asking again, where somebody else runs it


@dataclass(frozen=True, slots=True)
class Terms:
    """On which terms a call is claimed."""

    lease: float  # seconds in which it must be recorded
    again: bool  # it may run again where a claim ran out
    approval: bool  # a person must say yes first


class CallLedger(Protocol):
    """The calls of every interaction. All methods raise LedgerUnavailable."""

    def claim(self, interaction_id: str, call: Call, terms: Terms) -> CallClaim:
        """Take the call; of several that ask, one gets it.

        A claim that ran out is given anew where the call may run again; else it becomes UNKNOWN.
        Where a person must say yes, a new call becomes APPROVAL and is granted to nobody.
        """
        ...

    def record(
        self, interaction_id: str, call: Call, result: Result, *, result_url: str = ""
    ) -> CallRecord:
        """Note how the call ended, the first time; return what is noted."""
        ...
