"""Who wants which event: the list that a worker process serves."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, overload

from gemhooks import handlers, topology
from gemhooks.events import BY_TYPE, Event
from gemhooks.spelling import schedule

E = TypeVar("E", bound=Event)
Handler = Callable[[E], object]  # a plain function or an async one


@dataclass(frozen=True, slots=True)
class Handled:
    """What a handler may return to say how it ended; the log line shows it."""

    reason: str


@dataclass(frozen=True, slots=True)
class Rules:
    """How a queue's messages are handled."""

    once: bool = True  # False: copies are handled again, and no ledger is asked
    once_per_resource: bool = False  # else once per message
    retry: tuple[float, ...] | None = None  # seconds between attempts; None: as the settings say


@dataclass(frozen=True)
class Subscription:
    """One queue, and which handler takes which event from it."""

    queue: str
    rules: Rules = Rules()
    handlers: dict[type[Event], Callable[[Any], object]] = field(default_factory=dict)
    patterns: dict[tuple[str, str], Callable[[Any], object]] = field(default_factory=dict)

    def handler_of(self, event: Event) -> Callable[[Any], object] | None:
        """The handler of the event's own class, of its nearest base, of a pattern of its type."""
        for kind in type(event).__mro__:
            if kind in self.handlers:
                return self.handlers[kind]
        taking = [
            (exchange == event.exchange, handler)
            for (exchange, pattern), handler in self.patterns.items()
            if topology.matches(pattern, event.type)
        ]
        # A type of somebody's own may come from any exchange: what is bound there has taken it.
        taken = [handler for is_from_there, handler in taking if is_from_there]
        others = [handler for _, handler in taking if event.type not in BY_TYPE]
        return next(iter(taken + others), None)

    @property
    def bindings(self) -> tuple[tuple[str, str], ...]:
        """(exchange, routing pattern) of everything that must land in the queue."""
        named = ((kind.exchange, each) for kind in self.handlers for each in kind.types)
        return (*named, *self.patterns)


class Consumers:
    """The subscriptions of one worker process.

    A handler runs once per message; with *once_per_resource*, once per event type and resource,
    so that an event which was polled and the late real one are one.
    """

    def __init__(self, *, once_per_resource: bool = False) -> None:
        self._by_queue: dict[str, Subscription] = {}
        self._once_per_resource = once_per_resource

    def __iter__(self) -> Iterator[Subscription]:
        return iter(self._by_queue.values())

    def __len__(self) -> int:
        return len(self._by_queue)

    def add(
        self,
        event: type[E] | str,
        handler: Handler[E],
        *,
        queue: str,
        where: Mapping[str, Any] | None = None,
        once: bool = True,
        retry: str | None = None,
        exchange: str = topology.EVENTS,
    ) -> None:
        """Give every *event* that arrives in *queue* to *handler*.

        *event* is a class of :mod:`gemhooks.events`, or a pattern of types such as ``"batch.*"``,
        of *exchange*; the handler then gets whatever class the type has. *where* keeps it to
        events with this ``user_metadata``. *once* (False: copies run again) and *retry* (waits
        such as ``"5s 1m"`` instead of the settings' schedule) are the queue's.

        Raises ValueError where the queue has a handler for that very event already, or other
        rules; TypeError for what is no event, and, with the line, for a handler that can't take it.
        """
        _check(event)
        kind = Event if isinstance(event, str) else event
        handlers.check(handler, kind)
        prepared = handlers.prepare(handler, where or {})
        waits = None if retry in (None, "") else schedule(retry)
        rules = Rules(once, self._once_per_resource, waits)
        subscription = self._subscription(queue, rules)
        if isinstance(event, str):
            _put(subscription.patterns, (exchange, event), prepared, f"{event!r} in {queue!r}")
        else:
            _put(subscription.handlers, event, prepared, f"{event.__name__} in {queue!r}")

    def _subscription(self, queue: str, rules: Rules) -> Subscription:
        name = topology.queue_name(queue)
        found = self._by_queue.setdefault(name, Subscription(name, rules))
        if found.rules != rules:
            raise ValueError(f"queue {queue!r} has handlers with another once or retry already")
        return found

    def include(self, other: "Consumers") -> None:
        """Take over all that *other* subscribes to."""
        for each in other:
            mine = self._subscription(each.queue, each.rules)
            for event, handler in each.handlers.items():
                _put(mine.handlers, event, handler, f"{event.__name__} in {each.queue!r}")
            for pattern, handler in each.patterns.items():
                _put(mine.patterns, pattern, handler, f"{pattern[1]!r} in {each.queue!r}")

    @overload
    def on(
        self,
        event: type[E],
        *,
        queue: str,
        where: Mapping[str, Any] | None = None,
        once: bool = True,
        retry: str | None = None,
    ) -> Callable[[Handler[E]], Handler[E]]: ...

    @overload
    def on(
        self,
        event: str,
        *,
        queue: str,
        where: Mapping[str, Any] | None = None,
        once: bool = True,
        retry: str | None = None,
        exchange: str = topology.EVENTS,
    ) -> Callable[[Handler[Event]], Handler[Event]]: ...

    def on(self, event: Any, **options: Any) -> Any:
        """Decorate a handler: the same as :meth:`add`."""
        _check(event)  # a handler, where the parentheses were forgotten

        def register(handler: Any) -> Any:
            self.add(event, handler, **options)
            return handler

        return register

    def only(self, queues: Iterable[str]) -> "Consumers":
        """Those of the given *queues*; ValueError for one that nobody subscribes to."""
        chosen = Consumers()
        for queue in queues:
            name = topology.queue_name(queue)
            if name not in self._by_queue:
                known = ", ".join(self._by_queue)
                raise ValueError(f"no handler takes events from {name}; there are: {known}")
            chosen._by_queue[name] = self._by_queue[name]
        return chosen

    def queues(self) -> list[topology.Queue]:
        """What must be declared before these consumers can run."""
        return [topology.Queue(each.queue, each.bindings) for each in self]


def _check(event: Any) -> None:
    """TypeError for what is neither an event's class nor a pattern."""
    if isinstance(event, str) or (isinstance(event, type) and issubclass(event, Event)):
        return
    raise TypeError(
        f"Consumers wants an event of gemhooks.events or a pattern of types, not {event!r:.100}:"
        " @consumers.on(events.InteractionFetched, queue=...)"
    )


def _put(handlers: dict[Any, Any], event: Any, handler: Any, what: str) -> None:
    if event in handlers:
        raise ValueError(f"there is a handler for {what} already")
    handlers[event] = handler
