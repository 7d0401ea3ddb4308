"""What became of one call."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from gemhooks.functions.texts import is_sendable

LONGEST_NAME = 64  # characters; a longer name was never one of ours


class Outcome(StrEnum):
    """How a call ended; fit to be a metric label."""

    OK = "ok"
    UNKNOWN_FUNCTION = "unknown_function"
    BAD_ARGUMENTS = "bad_arguments"
    FAILED = "failed"
    TIMEOUT = "timeout"
    UNSERIALISABLE = "unserialisable"
    TOO_LARGE = "too_large"  # it worked, and the model sees the beginning of the result
    REJECTED = "rejected"  # a person did not allow it
    RESOLVED = "resolved"  # a person said what it did
    GIVEN_UP = "given_up"  # nobody knows what it did, and a person let it be


FINE = frozenset({Outcome.OK, Outcome.TOO_LARGE, Outcome.RESOLVED})


@dataclass(frozen=True, slots=True)
class Answer:
    """What the model is told, and what we count."""

    result: Any  # an object, a text, or a list of content
    outcome: Outcome = Outcome.OK
    whole: bytes | None = field(default=None, repr=False)  # JSON, where *result* is cut


@dataclass(frozen=True, slots=True)
class Result:
    """The answer to one call, ready to be stored or sent."""

    call_id: str
    name: str
    result: Any
    is_error: bool
    outcome: Outcome
    whole: bytes | None = field(default=None, repr=False)  # JSON, where *result* is cut

    @classmethod
    def of(cls, call_id: str, name: str, answer: Answer) -> "Result":
        failed = answer.outcome not in FINE
        return cls(call_id, name, answer.result, failed, answer.outcome, answer.whole)

    def item(self) -> dict[str, Any]:
        """The ``function_result`` of a continuation's input."""
        item: dict[str, Any] = {"type": "function_result", "call_id": self.call_id}
        # The name is optional, and a hallucinated one may be of any size or encoding.
        if 0 < len(self.name) <= LONGEST_NAME and is_sendable(self.name):
            item["name"] = self.name
        item["result"] = self.result
        return item | {"is_error": True} if self.is_error else item
