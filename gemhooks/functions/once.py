"""Runs the waiting calls of an interaction, each once, whatever dies meanwhile."""

import contextvars
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import structlog

from gemhooks.errors import LedgerUnavailable, Retry
from gemhooks.functions.calls import Call
from gemhooks.functions.context import CallContext
from gemhooks.functions.deadline import CANCELLING
from gemhooks.functions.records import (
    PARKED,
    CallClaim,
    CallLedger,
    CallRecord,
    CallState,
    Terms,
)
from gemhooks.functions.registry import Effect, Functions
from gemhooks.functions.results import LONGEST_NAME, Result
from gemhooks.functions.texts import bounded
from gemhooks.metrics import OTHER, FunctionMetrics

T = TypeVar("T")
log = structlog.get_logger()

MARGIN = 30.0  # seconds beyond a function's timeout in which its result must be recorded
MOST_AT_ONCE = 8  # calls of one interaction
PAUSE = 0.5  # seconds between two tries to write to a ledger that is away


class Store(Protocol):
    """Where long results are put."""

    def write(self, kind: str, resource_id: str, suffix: str, content: bytes, /) -> str:
        """Store it and return its URL; Retry where that cannot be at present."""
        ...


@dataclass(frozen=True, slots=True)
class Interaction:
    """What the calls of an interaction need to know of it."""

    id: str
    user_metadata: dict[str, Any] = field(default_factory=dict)
    declared: frozenset[str] | None = None  # its tools; None where it does not say


@dataclass(frozen=True, slots=True)
class Settled:
    """Where the calls stand after a round, in their order."""

    calls: tuple[Call, ...]
    claims: tuple[CallClaim, ...]

    @property
    def results(self) -> list[Result]:
        """The answers that there are."""
        return [
            claim.record.answer_to(call)
            for call, claim in zip(self.calls, self.claims, strict=True)
            if claim.record.state is CallState.DONE
        ]

    @property
    def records(self) -> list[CallRecord]:
        """The calls that ended."""
        return [each.record for each in self.claims if each.record.state is CallState.DONE]

    @property
    def parked(self) -> list[CallRecord]:
        """The calls that wait for a person."""
        return [each.record for each in self.claims if each.record.state in PARKED]

    @property
    def busy(self) -> float:
        """Seconds until it is worth asking again; 0 where nobody else is at it."""
        return max((each.busy for each in self.claims), default=0.0)


@dataclass(frozen=True, slots=True)
class OnceOnly:
    """Claims, runs and records calls. Safe to share between threads."""

    functions: Functions
    ledger: CallLedger
    metrics: FunctionMetrics | None = None
    store: Store | None = None  # for results that are too long for the model
    margin: float = MARGIN
    show_arguments: bool = False  # in the log

    def settle(self, interaction: Interaction, calls: Sequence[Call]) -> Settled:
        """Run what may run, all at once; LedgerUnavailable where nothing could be claimed.

        A call that has its result is not run again, nor is one that is somebody else's at present.
        """
        with ThreadPoolExecutor(min(MOST_AT_ONCE, max(1, len(calls)))) as pool:
            # Each in a copy of this thread's context, so that its log lines carry our ids.
            begun = [
                pool.submit(contextvars.copy_context().run, self._settle_one, interaction, call)
                for call in calls
            ]
        return Settled(tuple(calls), tuple(each.result() for each in begun))

    def _settle_one(self, interaction: Interaction, call: Call) -> CallClaim:
        refusal = self.functions.refusal(call, declared=interaction.declared)
        with self.functions.room_for(call):  # first, for a claim's time runs
            claim = self.ledger.claim(interaction.id, call, self._terms(call, refusal))
            if not claim.granted:
                return claim
            started = time.perf_counter()
            result = refusal or self._run(interaction, call)
            self._tell(interaction, call, result, time.perf_counter() - started)
            return CallClaim(self._record(interaction, call, result))

    def _terms(self, call: Call, refusal: Result | None) -> Terms:
        function = self.functions.get(call.name)
        if function is None or refusal is not None:  # nothing will run: no effect, no approval
            return Terms(lease=self.margin, again=True, approval=False)
        return Terms(
            lease=function.timeout + CANCELLING + self.margin,
            again=function.effect is Effect.IDEMPOTENT,
            approval=function.approval,
        )

    def _run(self, interaction: Interaction, call: Call) -> Result:
        context = CallContext(interaction.id, call.id, interaction.user_metadata)
        return self.functions.run(call, context=context, declared=interaction.declared)

    def _record(self, interaction: Interaction, call: Call, result: Result) -> CallRecord:
        url = self._stored(interaction, call, result)
        return insisting(
            lambda: self.ledger.record(interaction.id, call, result, result_url=url), self.margin
        )

    def _stored(self, interaction: Interaction, call: Call, result: Result) -> str:
        """Where the whole of a long result lies; "" where there is none, or no place for it."""
        if result.whole is None or self.store is None:
            return ""
        try:
            return self.store.write(
                "functions", f"{interaction.id}/{call.id}", "json", result.whole
            )
        except Retry as error:  # the call counts, with the beginning that the model is told
            log.warning("result_not_stored", call_id=call.id, reason=error.reason)
            return ""

    def _tell(self, interaction: Interaction, call: Call, result: Result, seconds: float) -> None:
        if self.metrics is not None:
            known = self.functions.get(call.name) is not None
            self.metrics.called(call.name if known else OTHER, result.outcome, seconds)
        log.info(
            "function_called",
            interaction_id=interaction.id,
            call_id=call.id,
            function=bounded(call.name, LONGEST_NAME),
            outcome=result.outcome.value,
            milliseconds=round(seconds * 1000, 1),
            **({"arguments": call.arguments} if self.show_arguments else {}),
        )


def insisting(write: Callable[[], T], seconds: float) -> T:
    """What *write* returns, tried while the ledger is away: what was done must not be forgotten.

    Raises LedgerUnavailable after *seconds*.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            return write()
        except LedgerUnavailable:
            if time.monotonic() > deadline:
                raise
            time.sleep(PAUSE)
