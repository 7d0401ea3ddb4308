"""What becomes of batches and videos, by what is written in their request."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, Field

Status = Mapping[str, Any]


class Plan(BaseModel):
    """*when* must be contained in the display name, the model or the prompt; "" always is."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    when: str = ""
    outcome: str = "succeeded"  # failed, expired, cancelled; stuck never ends; others are sent on
    delay: float = Field(default=0.0, ge=0)  # seconds, on top of the simulator's own
    announce: bool | str = True  # False: the event is lost for ever; a text: it is of that type
    code: int = 13
    message: str = "It broke, as its plan says."


class BatchPlan(Plan):
    """A batch's results come from its requests, or are made up if *rows* says how many."""

    rows: int = Field(default=0, ge=0)
    row_bytes: int = Field(default=1000, ge=500)  # length of a made-up line, its end included
    dimensions: int = Field(default=0, ge=0)  # made-up lines are embeddings of so many numbers
    fail_every: int = Field(default=0, ge=0)  # every n-th row is an error, 1: all of them
    malformed_every: int = Field(default=0, ge=0)  # every n-th line of the file is no JSON
    bare_every: int = Field(default=0, ge=0)  # every n-th line has no `response` around it
    detailed_errors: bool = False  # google.rpc details: the official client cannot parse them
    results: bool = True  # False: a success without any
    extra: tuple[Any, ...] = ()  # rows besides; in a file, a text is a line as it stands
    results_expire: float | None = Field(default=None, ge=0)  # seconds; the file is gone then


class VideoPlan(Plan):
    """*filtered* videos are a success without a sample."""

    samples: int = Field(default=1, ge=1, le=8)
    bytes: int = Field(default=100_000, ge=0)  # of each sample
    filtered: bool = False
    uri: str | None = None  # of each sample, wherever that leads


class Plans(BaseModel):
    """The first plan that fits is taken."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    batches: tuple[BatchPlan, ...] = ()
    videos: tuple[VideoPlan, ...] = ()


class _Conditional(Protocol):
    @property
    def when(self) -> str: ...


P = TypeVar("P", bound=_Conditional)


def find(plans: Sequence[P], texts: Sequence[str], default: P) -> P:
    """Return the first of *plans* that one of *texts* asks for."""
    return next((plan for plan in plans if any(plan.when in text for text in texts)), default)


def status(code: int, message: str, *, details: bool = False) -> Status:
    """A google.rpc.Status."""
    answer: dict[str, Any] = {"code": code, "message": message}
    if details:
        kind = "type.googleapis.com/google.rpc.ErrorInfo"
        answer["details"] = [{"@type": kind, "reason": "SIMULATED", "metadata": {"tries": "1"}}]
    return answer


def every(number: int, nth: int) -> bool:
    """Whether row *number*, from 0 on, is one of every *nth*; 0 means none."""
    return bool(nth) and (number + 1) % nth == 0
