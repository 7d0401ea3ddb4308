"""What a person may decide about a parked call, and from where."""

from enum import StrEnum
from typing import Any

from gemhooks.functions.chains import SendState
from gemhooks.functions.conversion import convert
from gemhooks.functions.records import CallState
from gemhooks.functions.results import Answer, Outcome


class Verdict(StrEnum):
    """A person's word."""

    APPROVE = "approve"
    REJECT = "reject"
    RERUN = "rerun"
    RESULT = "result"
    FAIL = "fail"


_UNKNOWN = (CallState.UNKNOWN, CallState.READY)
_APPROVAL = (CallState.APPROVAL, CallState.READY)
# READY, too: a person may think better of it, or repeat a command that broke off.
CALLS_FROM = {
    Verdict.APPROVE: _APPROVAL,
    Verdict.REJECT: _APPROVAL,
    Verdict.RERUN: _UNKNOWN,
    Verdict.RESULT: _UNKNOWN,
    Verdict.FAIL: _UNKNOWN,
}
OUTCOMES = {
    Verdict.REJECT: Outcome.REJECTED,
    Verdict.RESULT: Outcome.RESOLVED,
    Verdict.FAIL: Outcome.GIVEN_UP,
}
SENDS_TO = {
    Verdict.RERUN: SendState.NOT_SENT,
    Verdict.RESULT: SendState.SENT,
    Verdict.FAIL: SendState.GIVEN_UP,
}


def answer_of(verdict: Verdict, said: Any) -> Answer | None:
    """What the model is told; None where the call is to run."""
    if verdict not in OUTCOMES:
        return None
    # As if the function had returned it: any JSON value will do, and a long one is cut.
    return Answer(convert(said).result, OUTCOMES[verdict])
