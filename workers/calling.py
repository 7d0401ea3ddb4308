"""Puts together what answers an interaction's function calls."""

import structlog

from gemhooks import service
from gemhooks.consumers import Handled
from gemhooks.events import Event
from gemhooks.functions import Functions
from gemhooks.functions.loading import load_functions
from gemhooks.functions.once import OnceOnly
from gemhooks.gemini import Gemini
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
    return FunctionCaller(
        gemini.interactions,
        Chains(ledgers.continuations, ledgers.jobs, answer_all=settings.functions_for == "all"),
        OnceOnly(functions, ledgers.calls, margin=settings.lease),
        Continuer(
            gemini.interactions,
            ledgers.continuations,
            ledgers.jobs,
            declarations=tuple(functions.declarations()),
            wait=settings.continue_wait,
            lease=settings.gemini_timeout + settings.lease,
        ),
        CallAnnouncer(parts.broker.publisher),
        ledgers.jobs,
        Limits(settings.max_turns, settings.chain_timeout),
    )


def unserved(event: Event) -> Handled:
    """Somebody asks for functions, and this process has none: the jobs show that it waits."""
    log.warning("no_functions", id=event.data.id, hint="set GEMHOOKS_FUNCTIONS")
    return Handled("no_functions")
