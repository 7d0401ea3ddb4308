"""What no signature covers is not believed: of a hint's body, only type and id count."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from gemhooks.events import Event
from gemhooks.handling import current_message
from workers.ports import JobReader

E = TypeVar("E", bound=Event)


def is_hint() -> bool:
    """Whether the message that is being handled is one."""
    try:
        return current_message().is_hint
    except LookupError:  # nobody's message: a test, or a call of our own
        return False


@dataclass(frozen=True)
class Reducing:
    """Stands before the built-in handlers."""

    jobs: JobReader

    def before(self, handler: Callable[[E], object]) -> Callable[[E], object]:
        """*handler*, which of a hint gets type and id, and what we know of that job ourselves."""

        def handle(event: E) -> object:
            return handler(self._reduced(event) if is_hint() else event)

        return handle

    def _reduced(self, event: E) -> E:
        kind = event.type.partition(".")[0]
        known = self.jobs.get(kind, event.data.id)
        data = {"id": event.data.id} if known is None else _ours(known.id, known.user_metadata)
        return type(event).model_validate({"type": event.type, "data": data})


def _ours(job_id: str, user_metadata: object) -> dict[str, object]:
    """The longer name is the one that Gemini can be asked by."""
    return {"id": job_id, "user_metadata": user_metadata}
