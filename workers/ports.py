"""What the built-in consumers need of the world, as protocols."""

from typing import Any, Protocol

from gemhooks.gemini import FetchedInteraction


class InteractionReader(Protocol):
    """Gemini's interactions, for those who only look."""

    def get(self, interaction_id: str, /) -> FetchedInteraction:
        """Fetch it whole; NotYet, Retry or Refused where that cannot be."""
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
