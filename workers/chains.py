"""Whose interaction is it, and which turn of its chain?"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from gemhooks.consumers import Handled
from gemhooks.events import Event
from gemhooks.functions import marks
from gemhooks.functions.chains import Continuation, ContinuationLedger, Place, SendState
from workers import answers
from workers.ports import JobReader

E = TypeVar("E", bound=Event)
NOT_OURS = Handled("not_ours")
# A sibling, a successor of the same interaction, is the one that is acted on.
SUPERSEDED = Handled("superseded")


@dataclass(frozen=True)
class Chains:
    """Knows which interactions we answer: static webhooks carry the whole project's events."""

    continuations: ContinuationLedger
    jobs: JobReader
    answer_all: bool = False

    def place_of(self, interaction: dict[str, Any], told: dict[str, Any]) -> Place | Handled:
        """Its place in a chain of ours, or why there is none.

        *told* is the event's user_metadata. A signature need not cover it, so only a continuation's
        key counts there, which nobody can guess.
        """
        previous = self._previous_of(interaction, told)
        if previous is not None:
            is_successor = previous.successor_id == interaction["id"]
            return previous.next_place() if is_successor else SUPERSEDED
        return Place(interaction["id"]) if self._is_ours(interaction) else NOT_OURS

    def notice(self, interaction_id: str, told: dict[str, Any]) -> None:
        """Learn from any event that carries a key of ours that its continuation did arrive."""
        if key := _key_in(told):
            self.continuations.recognise(key, interaction_id)

    def _previous_of(
        self, interaction: dict[str, Any], told: dict[str, Any]
    ) -> Continuation | None:
        """The continuation of ours that led to *interaction*."""
        name, said = interaction["id"], answers.user_metadata(interaction)
        for key in filter(None, (_key_in(said), _key_in(told))):
            if found := self.continuations.recognise(key, name):
                return found
        return self.continuations.leading_to(name) or self._lost(interaction)

    def _lost(self, interaction: dict[str, Any]) -> Continuation | None:
        """The continuation that was lost and must have become *interaction*, which lacks its key.

        Nothing says that Gemini echoes the metadata everywhere.
        """
        previous = interaction.get("previous_interaction_id")
        if not isinstance(previous, str) or answers.user_metadata(interaction):
            return None
        found = self.continuations.of(previous)
        if found is None or found.state not in (SendState.LOST, SendState.UNKNOWN):
            return None
        return self.continuations.recognise(found.key, interaction["id"])

    def _is_ours(self, interaction: dict[str, Any]) -> bool:
        # A key that we don't know is that of another gemhooks, which answers for itself.
        if self.answer_all or marks.mark_of(answers.user_metadata(interaction)) == marks.STARTED:
            return True
        job = self.jobs.get("interaction", interaction["id"])
        return job is not None and job.ours


def _key_in(user_metadata: dict[str, Any]) -> str:
    mark = marks.mark_of(user_metadata)
    return "" if mark == marks.STARTED else mark


@dataclass(frozen=True)
class Noticing:
    """Lets handlers of other events tell that a continuation did arrive."""

    chains: Chains | None

    def before(self, handler: Callable[[E], object]) -> Callable[[E], object]:
        """*handler*, after what the event tells of a continuation was noticed."""
        chains = self.chains
        if chains is None:
            return handler

        def handle(event: E) -> object:
            chains.notice(event.data.id, event.data.user_metadata)
            return handler(event)

        return handle
