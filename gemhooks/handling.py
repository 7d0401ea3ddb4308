"""What a handler may know and do beside its event: the message it came in, and publishing."""

from contextvars import ContextVar
from dataclasses import dataclass

from gemhooks import messages, topology
from gemhooks.messages import Message, Publisher

# What a slip of an author's is likely to put something else into.
FIELDS = {"id": str, "type": str, "body": bytes, "timestamp": int, "time": str}


@dataclass(frozen=True, slots=True)
class _Handling:
    message: Message
    publisher: Publisher | None


_current: ContextVar[_Handling] = ContextVar("gemhooks_handling")


def current_message() -> Message:
    """The message that this thread's handler was called for: its id, attempt, trust ...

    LookupError outside of a handler.
    """
    return _now().message


def publish(message: Message, *, exchange: str = topology.RESULTS) -> None:
    """Publish from within a handler, and return once the broker confirmed it.

    Give it an id that is the same at each try, so that those who hear it twice know it. Raises
    PublishFailed, which a handler lets pass: while the broker is away, no attempt is counted.
    TypeError where a field holds something else than it should, LookupError outside of a handler.
    """
    _check(message)
    publisher = _now().publisher
    if publisher is None:
        raise LookupError("this runner has no publisher")
    messages.confirm(publisher.publish(message, exchange=exchange))


def _check(message: Message) -> None:
    """No two brokers refuse the same, and neither of them says which field it was."""
    for name, kind in FIELDS.items():
        value = getattr(message, name)
        if not isinstance(value, kind):
            wrong = type(value).__name__
            raise TypeError(f"a message's {name} must be {kind.__name__}, not {wrong}")


def _now() -> _Handling:
    try:
        return _current.get()
    except LookupError:
        raise LookupError(
            "publish() and current_message() work only in a handler, and in threads that it starts"
            " with its context: Thread(target=contextvars.copy_context().run, args=(function,))"
        ) from None


class handling:  # noqa: N801 - to be read as a verb
    """Makes *message* the current one, for the time of a ``with``."""

    __slots__ = ("_now", "_token")

    def __init__(self, message: Message, publisher: Publisher | None) -> None:
        self._now = _Handling(message, publisher)

    def __enter__(self) -> None:
        self._token = _current.set(self._now)

    def __exit__(self, *_: object) -> None:
        _current.reset(self._token)
