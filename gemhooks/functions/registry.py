"""Functions: the registry of what a model may call."""

import functools
import inspect
import math
import pickle
import re
import threading
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal, TypeVar

from gemhooks import loops
from gemhooks.functions import signatures
from gemhooks.functions.arguments import BadArguments, check
from gemhooks.functions.calls import Call
from gemhooks.functions.context import CallContext
from gemhooks.functions.conversion import MAX_RESULT, SMALLEST_RESULT, convert
from gemhooks.functions.deadline import CANCELLING, DeadlinePassed, finished, within
from gemhooks.functions.isolation import Isolation
from gemhooks.functions.results import Answer, Outcome, Result
from gemhooks.functions.signatures import Signature
from gemhooks.functions.texts import bounded, explain

F = TypeVar("F", bound=Callable[..., Any])
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}")  # FunctionDeclaration.name of Gemini's API
LONGEST_ERROR = 200  # characters of an exception that the model sees
PROCESS_MEMORY = 4 * 1024**3  # bytes of address space; libraries reserve more than they use


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
    isolation: Isolation | None = None  # where it runs, if not in a thread of this process

    def declaration(self) -> dict[str, Any]:
        """What ``interactions.create(tools=...)`` takes."""
        declared: dict[str, Any] = {"type": "function", "name": self.name}
        if self.signature.description:
            declared["description"] = self.signature.description
        if self.signature.schema["properties"]:  # without any, Gemini refuses the schema
            declared["parameters"] = self.signature.schema
        return declared

    def answer(self, call: Call, context: CallContext, max_result: int) -> Answer:
        """Check, run and convert, all under one deadline; DeadlinePassed if it goes on.

        DeadlinePassed of one with an isolation says that it does not: its process was killed.
        """
        if self.isolation is not None:
            known = (self.body, self.name, self.timeout, call, (context, max_result))
            return self.isolation.run(attempt, *known, seconds=self.timeout + self.grace)
        return within(
            self.timeout, lambda: self.attempt(call, context, max_result), grace=self.grace
        )

    @property
    def is_unreachable(self) -> bool:
        """Whether another process would look for it in vain."""
        if self.isolation is None:
            return False
        try:
            pickle.dumps(self.body)
        except (pickle.PicklingError, AttributeError, TypeError):
            return True
        return False

    @property
    def grace(self) -> float:
        """Seconds that a coroutine has to clean up in, once its deadline passed."""
        return CANCELLING if inspect.iscoroutinefunction(self.body) else 0.0

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

    def attempt(self, call: Call, context: CallContext, max_result: int) -> Answer:
        """Check, run and convert, here and now. Never raises: the thread is the function's own."""
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


def attempt(
    body: Callable[..., Any], name: str, timeout: float, call: Call, given: tuple[CallContext, int]
) -> Answer:
    """As :meth:`Function.attempt`, in a process that knows nothing but *body*."""
    function = Function(name, body, _signature(body, name), timeout, Effect.ONCE)
    return function.attempt(call, *given)


_signature = functools.cache(signatures.read)


class Functions:
    """The functions of one process; a model can name these and no others."""

    def __init__(
        self, *, max_result: int = MAX_RESULT, process_memory: int = PROCESS_MEMORY
    ) -> None:
        """*max_result*: bytes of JSON that a model sees of one result; *process_memory*: bytes that
        a function with isolation="process" may take.
        """
        if max_result < SMALLEST_RESULT:
            raise ValueError(f"max_result must be at least {SMALLEST_RESULT} bytes")
        self._by_name: dict[str, Function] = {}
        self._max_result = max_result
        self._isolation = Isolation(memory=process_memory)
        self._lock = threading.Lock()
        self._abandoned = 0

    @property
    def abandoned(self) -> int:
        """How many calls were left running at their deadline since the start."""
        return self._abandoned

    def __len__(self) -> int:
        return len(self._by_name)

    def get(self, name: str) -> Function | None:
        """The function of exactly that name."""
        return self._by_name.get(name)

    def function(
        self,
        *,
        timeout: float = 30.0,
        effect: Effect | Literal["once", "idempotent"] = Effect.ONCE,
        approval: bool = False,
        isolation: Literal["thread", "process"] = "thread",
        name: str | None = None,
    ) -> Callable[[F], F]:
        """Decorate a function that a model may call; it stays as it is.

        *effect*: "once" is never run again where a crash hides whether it ran; "idempotent" is.
        With *approval* every call waits for ``gemhooks calls approve`` or ``reject``.
        *isolation*: "process" runs it in a process of its own, which is killed at the deadline; its
        module is imported there, so it must be a plain function of a module.
        Raises ValueError or TypeError, naming the function, where it can't be offered.
        """

        def register(body: F) -> F:
            own = str(getattr(body, "__name__", ""))
            chosen = own if name is None else name
            self._check(chosen, timeout, effect)
            where = self._where(body, chosen, isolation)
            signature = signatures.read(body, chosen)
            self._by_name[chosen] = Function(
                chosen, body, signature, timeout, Effect(effect), approval, where
            )
            return body

        return register

    def _check(self, name: str, timeout: float, effect: str) -> None:
        if not _NAME.fullmatch(name):
            raise ValueError(f"function {name!r}: the API takes letters, digits, _.:-, at most 128")
        if name in self._by_name:
            raise ValueError(f"function {name!r} is registered already")
        if not (math.isfinite(timeout) and timeout > 0):
            raise ValueError(f"function {name!r}: timeout must be seconds above zero")
        if effect not in list(Effect):
            raise ValueError(f"function {name!r}: effect is once or idempotent, not {effect!r}")

    def _where(self, body: Callable[..., Any], name: str, isolation: str) -> Isolation | None:
        if isolation == "thread":
            return None
        if isolation != "process":
            raise ValueError(f"function {name!r}: isolation is thread or process")
        if "<" in str(getattr(body, "__qualname__", "<")):  # <locals>, <lambda>
            raise ValueError(f"function {name!r}: a process finds only functions of a module")
        return self._isolation

    def room_for(self, call: Call) -> AbstractContextManager[None]:
        """Enter it before a call's time runs: a process may have to become free first."""
        function = self._by_name.get(call.name)
        isolation = function.isolation if function else None
        return nullcontext() if isolation is None else isolation.room()

    def longer_than(self, seconds: float) -> list[str]:
        """The once-only functions that may take longer."""
        every = self._by_name.values()
        return [
            each.name for each in every if each.effect is Effect.ONCE and each.timeout > seconds
        ]

    def unreachable(self) -> list[str]:
        """The isolated functions that another process would not find under their names."""
        return [each.name for each in self._by_name.values() if each.is_unreachable]

    def close(self) -> None:
        """End the processes, if there are any; a later call starts new ones."""
        self._isolation.close()

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
            if function.isolation is None:  # else it is gone
                self._abandon()
            return function.late()
        except (RuntimeError, pickle.PickleError) as error:
            # No thread to be had, no way into a process: the function has not begun.
            return Answer(explain(error, LONGEST_ERROR), Outcome.FAILED)

    def _unknown(self, call: Call, declared: Collection[str] | None) -> Answer | None:
        known = [each for each in self._by_name if declared is None or each in declared]
        return None if call.name in known else _unknown(call.name, known)

    def _abandon(self) -> None:
        with self._lock:
            self._abandoned += 1
        loops.shared.leave_if_blocked()  # perhaps by this one, and the next calls need a loop


def _unknown(name: str, known: list[str]) -> Answer:
    names = bounded(", ".join(known), 800) or "none"
    text = f"There is no function {bounded(name, 64)!r}. Known functions: {names}"
    return Answer(text, Outcome.UNKNOWN_FUNCTION)
