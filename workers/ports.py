"""What the built-in consumers need of the world, as protocols."""

from collections.abc import Mapping
from typing import Any, Protocol

from gemhooks.gemini import FetchedInteraction
from gemhooks.ledger import Job


class InteractionReader(Protocol):
    """Gemini's interactions, for those who only look."""

    def get(self, interaction_id: str, /) -> FetchedInteraction:
        """Fetch it whole; NotYet, Retry or Refused where that cannot be."""
        ...


class InteractionStarter(Protocol):
    """Gemini's interactions, for those who continue one."""

    def create(self, **wanted: Any) -> FetchedInteraction:
        """Start one; AnswerLost where nobody knows whether it did, Retry or Refused where not."""
        ...


class Results(Protocol):
    """Where results are put."""

    def write(self, kind: str, resource_id: str, suffix: str, content: bytes, /) -> str:
        """Store it and return its URL; Retry where that cannot be at present."""
        ...


class JobRecorder(Protocol):
    """The memory of what became of every interaction, batch and video."""

    def record(
        self,
        kind: str,
        id: str,  # noqa: A002 - Google's word
        state: str,
        *,
        event_type: str = "",
        error_code: str = "",
        error_message: str = "",
        user_metadata: dict[str, Any] | None = None,
    ) -> object:
        """Note the last state; LedgerUnavailable while the database is away."""
        ...


class JobReader(Protocol):
    """Looks a job up."""

    def get(self, kind: str, id: str, /) -> Job | None:  # noqa: A002 - Google's word
        ...


class JobMemory(JobReader, JobRecorder, Protocol):
    """Both, for those who read what was noted before."""


class JobBook(JobReader, Protocol):
    """The memory of jobs, for those who start some."""

    def record(
        self,
        kind: str,
        id: str,  # noqa: A002 - Google's word
        state: str,
        *,
        event_type: str = "",
        user_metadata: Mapping[str, Any] | None = None,
        ours: bool = False,
        request: Mapping[str, Any] | None = None,
    ) -> object:
        """Note the last state; LedgerUnavailable while the database is away."""
        ...
