"""A user's handler: checked, filtered, and what it returns awaited where that is to be."""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from functools import wraps
from typing import Any, get_type_hints

from gemhooks import loops
from gemhooks.events import Event

Handler = Callable[[Any], object]


def prepare(handler: Handler, where: Mapping[str, Any]) -> Handler:
    """*handler* itself where there is nothing to do."""
    return _filtering(handler, dict(where)) if where else handler


def check(handler: Handler, event: type[Event]) -> None:
    """TypeError, with the line, for one that can't be called with an *event*."""
    place = _place(handler)
    if inspect.isgeneratorfunction(handler) or inspect.isasyncgenfunction(handler):
        raise TypeError(f"{place} is a generator: none of it would run.")
    try:
        (first, *_others) = _bound(handler).arguments
    except (TypeError, ValueError):
        raise TypeError(f"{place} must take one argument, the event.") from None
    wanted = _hints(handler).get(first)
    if inspect.isclass(wanted) and not issubclass(event, wanted):
        raise TypeError(f"{place} takes {wanted.__name__}, but would be given {event.__name__}.")


class Skipped:
    """What a filter answers for an event that is not for this handler."""


def _filtering(handler: Handler, where: dict[str, Any]) -> Handler:
    @wraps(handler)
    def filtered(event: Event) -> object:
        metadata = event.data.user_metadata
        if all(key in metadata and metadata[key] == value for key, value in where.items()):
            return handler(event)
        return Skipped()

    return filtered


def ended(said: object) -> object:
    """What a handler *said*, at its end; awaited in the loop that all of them share.

    An object's ``async def __call__``, a decorator or a lambda may return what is to be awaited
    without looking async, so it is what was returned that counts. Raises TypeError for a
    generator, of which nothing has run.
    """
    if said is None:
        return None
    if inspect.isgenerator(said) or inspect.isasyncgen(said):
        raise TypeError("the handler returned a generator: none of it has run")
    return loops.shared.begin(_awaited(said)).result() if inspect.isawaitable(said) else said


async def _awaited(awaitable: Awaitable[object]) -> object:
    return await awaitable


def _bound(handler: Handler) -> inspect.BoundArguments:
    return inspect.signature(handler).bind(object())


def _hints(handler: Handler) -> dict[str, Any]:
    call = handler if inspect.isroutine(handler) else type(handler).__call__
    try:
        return get_type_hints(call)
    except Exception:  # names that exist for the type checker only
        return {}


def _place(handler: Handler) -> str:
    """``shop/consumers.py:12: handle()``."""
    name = getattr(handler, "__qualname__", type(handler).__name__)
    code = getattr(inspect.unwrap(handler), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}: {name}()" if code else f"{name}()"
