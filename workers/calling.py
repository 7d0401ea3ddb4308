"""Puts together what answers an interaction's function calls."""

import structlog

from gemhooks import service
from gemhooks.consumers import Handled
from gemhooks.events import Event
from gemhooks.functions import Functions
from gemhooks.functions.loading import load_functions
from gemhooks.functions.once import OnceOnly
from gemhooks.gemini import Gemini
from gemhooks.ledger import Ledgers
from gemhooks.metrics import FunctionMetrics, StandingCalls
from gemhooks.results import ResultsStore
from workers.called import CallAnnouncer
from workers.chains import Chains
from workers.continuing import Continuer
from workers.functions import FunctionCaller, Limits

log = structlog.get_logger()


def function_caller(parts: service.Parts, gemini: Gemini) -> FunctionCaller | None:
    """The consumer for the user's registry; None where GEMHOOKS_FUNCTIONS names none.

    Raises Misconfigured where it names something else.
    """
    target = parts.settings.functions
    return caller_of(load_functions(target), parts, gemini) if target else None


def caller_of(functions: Functions, parts: service.Parts, gemini: Gemini) -> FunctionCaller:
    """The consumer for *functions*."""
    settings, ledgers = parts.settings, parts.ledgers
    StandingCalls(
        parts.registry, parked=lambda: parked(ledgers), abandoned=lambda: functions.abandoned
    )
    warn_of_long_ones(functions, settings.grace)
    return FunctionCaller(
        gemini.interactions,
        Chains(ledgers.continuations, ledgers.jobs, answer_all=settings.functions_for == "all"),
        OnceOnly(
            functions,
            ledgers.calls,
            FunctionMetrics(parts.registry),
            ResultsStore(settings.results_url),
            margin=settings.lease,
            show_arguments=settings.log_arguments,
        ),
        Continuer(
            gemini.interactions,
            ledgers.continuations,
            ledgers.jobs,
            declarations=tuple(functions.declarations()),
            wait=settings.continue_wait,
            lease=settings.gemini_timeout + settings.lease,
        ),
        CallAnnouncer(parts.publisher),
        ledgers.jobs,
        Limits(settings.max_turns, settings.chain_timeout),
    )


def parked(ledgers: Ledgers) -> dict[str, int]:
    """How many calls and continuations wait for a person, by why."""
    return ledgers.calls.parked() | {"continuation": ledgers.continuations.parked()}


def warn_of_long_ones(functions: Functions, grace: float) -> None:
    """A stop in the middle of a once-only call leaves it to a person."""
    if too_long := functions.longer_than(grace):
        hint = "raise GEMHOOKS_GRACE, and the limit of what kills, or lower their timeout"
        log.warning("functions_outlive_the_grace", functions=too_long, grace=grace, hint=hint)


def unserved(event: Event) -> Handled:
    """Somebody asks for functions, and this process has none: the jobs show that it waits."""
    log.warning("no_functions", id=event.data.id, hint="set GEMHOOKS_FUNCTIONS")
    return Handled("no_functions")
