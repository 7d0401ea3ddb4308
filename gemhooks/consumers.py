"""Who wants which event: the list that a worker process serves."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from gemhooks import topology
from gemhooks.events import Event

E = TypeVar("E", bound=Event)
Handler = Callable[[E], object]


@dataclass(frozen=True, slots=True)
class Handled:
    """What a handler may return to say how it ended; the log line shows it."""

    reason: str


@dataclass(frozen=True)
class Subscription:
    """One queue, and which handler takes which event from it."""

    queue: str
    handlers: dict[type[Event], Callable[[Any], object]] = field(default_factory=dict)
    once_per_resource: bool = False  # else once per message

    def handler_of(self, event: Event) -> Callable[[Any], object] | None:
        """The handler of the event's own class, else of its nearest base."""
        for kind in type(event).__mro__:
            if kind in self.handlers:
                return self.handlers[kind]
        return None

    @property
    def bindings(self) -> tuple[tuple[str, str], ...]:
        """(exchange, routing pattern) of everything that must land in the queue."""
        return tuple((kind.exchange, each) for kind in self.handlers for each in kind.types)


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

    def add(self, event: type[E], handler: Handler[E], *, queue: str) -> None:
        """Give every *event* that arrives in *queue* to *handler*.

        Raises ValueError where the queue has a handler for that very event already.
        """
        name = topology.queue_name(queue)
        subscription = self._by_queue.setdefault(
            name, Subscription(name, once_per_resource=self._once_per_resource)
        )
        if event in subscription.handlers:
            raise ValueError(f"queue {queue!r} already has a handler for {event.__name__}")
        subscription.handlers[event] = handler

    def include(self, other: "Consumers") -> None:
        """Take over all that *other* subscribes to."""
        for each in other:
            empty = Subscription(each.queue, once_per_resource=each.once_per_resource)
            self._by_queue.setdefault(each.queue, empty)
            for event, handler in each.handlers.items():
                self.add(event, handler, queue=each.queue)

    def on(self, event: type[E], *, queue: str) -> Callable[[Handler[E]], Handler[E]]:
        """Decorate a handler: the same as :meth:`add`."""

        def register(handler: Handler[E]) -> Handler[E]:
            self.add(event, handler, queue=queue)
            return handler

        return register

    def queues(self) -> list[topology.Queue]:
        """What must be declared before these consumers can run."""
        return [topology.Queue(each.queue, each.bindings) for each in self]
