"""Functions: the registry of what a model may call."""

import inspect
import math
import re
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal, TypeVar

from gemhooks.functions import signatures
from gemhooks.functions.arguments import BadArguments, check
from gemhooks.functions.calls import Call
from gemhooks.functions.context import CallContext
from gemhooks.functions.conversion import MAX_RESULT, convert
from gemhooks.functions.deadline import CANCELLING, DeadlinePassed, finished, within
from gemhooks.functions.results import Answer, Outcome, Result
from gemhooks.functions.signatures import Signature
from gemhooks.functions.texts import bounded, explain

F = TypeVar("F", bound=Callable[..., Any])
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
LONGEST_ERROR = 200  # characters of an exception that the model sees
SMALLEST_RESULT = 1024  # bytes; less has no room for the marker of what was cut


class Effect(StrEnum):
    """Whether a call that may have run can be run again."""

    ONCE = "once"
    IDEMPOTENT = "idempotent"


@dataclass(frozen=True, slots=True)
class Function:
    """One function that a model may call."""

    name: str
    body: Callable[..., Any]
    signature: Signature
    timeout: float
    effect: Effect
    approval: bool = False  # a person says yes to each call before it runs

    def declaration(self) -> dict[str, Any]:
        """What ``interactions.create(tools=...)`` takes."""
        described = {"description": self.signature.description}
        return {
            "type": "function",
            "name": self.name,
            **(described if self.signature.description else {}),
            "parameters": self.signature.schema,
        }

    def answer(self, call: Call, context: CallContext, max_result: int) -> Answer:
        """Check, run and convert, all under one deadline; DeadlinePassed if it goes on."""
        grace = CANCELLING if inspect.iscoroutinefunction(self.body) else 0.0
        return within(self.timeout, lambda: self._attempt(call, context, max_result), grace=grace)

    def refusal(self, call: Call) -> Answer | None:
        """What the model is told of arguments that don't fit; None where they do."""
        try:
            check(self.signature, call.arguments)
        except BadArguments as error:
            return Answer(str(error), Outcome.BAD_ARGUMENTS)
        return None

    def late(self) -> Answer:
        """What the model is told where the deadline passed."""
        text = f"{self.name} did not finish within {self.timeout:g} seconds"
        return Answer(text, Outcome.TIMEOUT)

    def _attempt(self, call: Call, context: CallContext, max_result: int) -> Answer:
        """Never raises: it is the function's own thread."""
        try:
            given = check(self.signature, call.arguments)
            given.update(dict.fromkeys(self.signature.contexts, context))
        except BadArguments as error:
            return Answer(str(error), Outcome.BAD_ARGUMENTS)
        try:
            value = finished(self.body(**given), self.timeout)
        except DeadlinePassed:
            return self.late()
        except BaseException as error:  # SystemExit must not leave the caller waiting
            return Answer(explain(error, LONGEST_ERROR), Outcome.FAILED)
        return convert(value, max_result)


class Functions:
    """The functions of one process; a model can name these and no others."""

    def __init__(self, *, max_result: int = MAX_RESULT) -> None:
        if max_result < SMALLEST_RESULT:
            raise ValueError(f"max_result must be at least {SMALLEST_RESULT} bytes")
        self._by_name: dict[str, Function] = {}
        self._max_result = max_result
        self._lock = threading.Lock()
        self._abandoned = 0

    @property
    def abandoned(self) -> int:
        """How many calls were left running at their deadline since the start."""
        return self._abandoned

    def get(self, name: str) -> Function | None:
        """The function of exactly that name."""
        return self._by_name.get(name)

    def function(
        self,
        *,
        timeout: float = 30.0,
        effect: Effect | Literal["once", "idempotent"] = Effect.ONCE,
        approval: bool = False,
        name: str | None = None,
    ) -> Callable[[F], F]:
        """Decorate a function that a model may call; it stays as it is.

        *effect*: "once" is never run again where a crash hides whether it ran; "idempotent" is.
        With *approval* every call waits for ``gemhooks calls approve`` or ``reject``.
        Raises ValueError or TypeError, naming the function, where it can't be offered.
        """

        def register(body: F) -> F:
            own = str(getattr(body, "__name__", ""))
            self._add(body, own if name is None else name, timeout, effect, approval=approval)
            return body

        return register

    def _add(
        self, body: Callable[..., Any], name: str, timeout: float, effect: str, *, approval: bool
    ) -> None:
        if not _NAME.fullmatch(name):
            raise ValueError(f"function {name!r}: the API takes letters, digits, _; at most 64")
        if name in self._by_name:
            raise ValueError(f"function {name!r} is registered already")
        if not (math.isfinite(timeout) and timeout > 0):
            raise ValueError(f"function {name!r}: timeout must be seconds above zero")
        if effect not in list(Effect):
            raise ValueError(f"function {name!r}: effect is once or idempotent, not {effect!r}")
        signature = signatures.read(body, name)
        self._by_name[name] = Function(name, body, signature, timeout, Effect(effect), approval)

    def declarations(self) -> list[dict[str, Any]]:
        """All functions, for ``interactions.create(tools=...)``."""
        return [each.declaration() for each in self._by_name.values()]

    def run(
        self, call: Call, *, context: CallContext, declared: Collection[str] | None = None
    ) -> Result:
        """The answer to *call*; never raises for anything the model or the function does.

        Where *declared* names the tools of this interaction, a model can't call others either.
        """
        return Result.of(call.id, call.name, self._answer(call, context, declared))

    def refusal(self, call: Call, *, declared: Collection[str] | None = None) -> Result | None:
        """The answer to a call that never gets to run a function; None for one that would."""
        answer = self._unknown(call, declared) or self._by_name[call.name].refusal(call)
        return None if answer is None else Result.of(call.id, call.name, answer)

    def _answer(self, call: Call, context: CallContext, declared: Collection[str] | None) -> Answer:
        if unknown := self._unknown(call, declared):
            return unknown
        function = self._by_name[call.name]
        try:
            return function.answer(call, context, self._max_result)
        except DeadlinePassed:
            self._abandon()
            return function.late()
        except RuntimeError as error:  # no thread to be had; the function has not begun
            return Answer(explain(error, LONGEST_ERROR), Outcome.FAILED)

    def _unknown(self, call: Call, declared: Collection[str] | None) -> Answer | None:
        known = [each for each in self._by_name if declared is None or each in declared]
        return None if call.name in known else _unknown(call.name, known)

    def _abandon(self) -> None:
        with self._lock:
            self._abandoned += 1


def _unknown(name: str, known: list[str]) -> Answer:
    names = bounded(", ".join(known), 800) or "none"
    text = f"There is no function {bounded(name, 64)!r}. Known functions: {names}"
    return Answer(text, Outcome.UNKNOWN_FUNCTION)
