"""The functions that a model may call: declared, checked, run for a bounded time, answered.

No broker, no database, no network: who calls :meth:`Functions.run` records and sends.
"""

from gemhooks.functions.calls import Call, Waiting, waiting_calls
from gemhooks.functions.context import CallContext
from gemhooks.functions.continuations import continuation, declared_names
from gemhooks.functions.registry import Effect, Function, Functions
from gemhooks.functions.results import Outcome, Result

__all__ = [
    "Call",
    "CallContext",
    "Effect",
    "Function",
    "Functions",
    "Outcome",
    "Result",
    "Waiting",
    "continuation",
    "declared_names",
    "waiting_calls",
]
