"""Runs the functions that an interaction waits for, and answers them all at once."""

import time
from dataclasses import dataclass
from typing import Any

import structlog

from gemhooks import events
from gemhooks.consumers import Handled
from gemhooks.errors import NotYet, Reject, Retry
from gemhooks.functions.calls import waiting_calls
from gemhooks.functions.chains import Place
from gemhooks.functions.continuations import declared_names
from gemhooks.functions.once import Interaction, OnceOnly, Settled
from workers import answers
from workers.called import CallAnnouncer
from workers.chains import Chains
from workers.continuing import Continuer
from workers.ports import InteractionReader, JobBook
from workers.sightings import INTERACTION_ENDS

ASKED = "interaction.requires_action"
log = structlog.get_logger()


@dataclass(frozen=True)
class Limits:
    """How long a chain of interactions may get."""

    turns: int
    seconds: float

    def check(self, place: Place) -> None:
        """Reject what goes round and round; a dead letter says so."""
        if place.turn > self.turns:
            raise Reject(f"this chain has {self.turns} turns: see GEMHOOKS_MAX_TURNS")
        age = 0.0 if place.started_at is None else time.time() - place.started_at
        if age > self.seconds:
            raise Reject(f"this chain is {age:.0f} seconds old: see GEMHOOKS_CHAIN_TIMEOUT")


@dataclass(frozen=True)
class FunctionCaller:
    """Answers ``interaction.requires_action``, once, however often and wherever it is told."""

    gemini: InteractionReader
    chains: Chains
    once: OnceOnly
    continuer: Continuer
    announcer: CallAnnouncer
    jobs: JobBook
    limits: Limits

    def run(self, event: events.Event) -> Handled:
        """What became of the interaction; only its id is taken from the event, the rest is fetched.

        Raises Retry while it is not known yet or somebody else is at it, Reject for a chain that
        does not end.
        """
        interaction = self.gemini.get(event.data.id).parsed
        if (status := interaction.get("status")) != "requires_action":
            return _not_waiting(status)
        place = self.chains.place_of(interaction, event.data.user_metadata)
        self._record(interaction, ours=isinstance(place, Place))
        if isinstance(place, Handled):
            log.info("interaction_left_alone", id=interaction["id"], reason=place.reason)
            return place
        return self._answer(interaction, place)

    def _answer(self, interaction: dict[str, Any], place: Place) -> Handled:
        if answered := self._answered(interaction["id"]):
            return answered
        self.limits.check(place)
        waiting = waiting_calls(interaction.get("steps"))
        if waiting.ignored:
            log.warning("steps_not_understood", id=interaction["id"], count=waiting.ignored)
        if not waiting.calls:
            return Handled("no_calls")
        settled = self.once.settle(_known(interaction), waiting.calls)
        self.announcer.announce(settled.records, answers.user_metadata(interaction))
        return self._continue(interaction, settled, place)

    def _continue(self, interaction: dict[str, Any], settled: Settled, place: Place) -> Handled:
        if settled.busy:
            raise Retry("a call is running elsewhere", at_least=settled.busy)
        if settled.parked:
            return Handled("parked")
        return self.continuer.send(interaction, settled.results, place)

    def _answered(self, interaction_id: str) -> Handled | None:
        found = self.continuer.continuations.of(interaction_id)
        if found is None or found.successor_id is None:
            return None
        return self.continuer.noted(interaction_id, found.successor_id)

    def _record(self, interaction: dict[str, Any], *, ours: bool) -> None:
        self.jobs.record(
            "interaction",
            interaction["id"],
            "requires_action",
            event_type=ASKED,
            user_metadata=answers.user_metadata(interaction) or None,
            ours=ours,
        )


def _not_waiting(status: Any) -> Handled:
    if status not in INTERACTION_ENDS:  # the event was ahead of what can be read
        raise NotYet(f"the interaction is still {status!r}"[:120])
    # The event was behind: another one tells what it has become.
    return Handled("not_waiting")


def _known(interaction: dict[str, Any]) -> Interaction:
    metadata = answers.user_metadata(interaction)
    return Interaction(interaction["id"], metadata, declared_names(interaction))
