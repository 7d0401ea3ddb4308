"""Sends the one continuation that answers an interaction's calls."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from gemhooks.consumers import Handled
from gemhooks.errors import AnswerLost, Refused, Reject, Retry
from gemhooks.functions import marks
from gemhooks.functions.chains import Begun, ContinuationLedger, Place, SendState
from gemhooks.functions.continuations import continuation
from gemhooks.functions.conversion import fitted
from gemhooks.functions.once import insisting
from gemhooks.functions.results import Result
from workers.ports import InteractionStarter, JobBook

# What a continuation takes from the start where the interaction itself does not say it.
KEPT = ("tools", "webhook_config", "system_instruction", "generation_config")
ASKED = "interaction.requires_action"
BAD_REQUEST = 400
# Gemini refuses results that are right, too, and takes them the next time (python-genai#3003).
MOST_REFUSALS = 4
log = structlog.get_logger()


@dataclass(frozen=True)
class Continuer:
    """Records before it sends and after; no crash and no lost answer makes it send twice."""

    gemini: InteractionStarter
    continuations: ContinuationLedger
    jobs: JobBook
    declarations: tuple[dict[str, Any], ...]
    wait: float  # seconds, for the event of a continuation whose answer was lost
    lease: float  # seconds in which Gemini must have answered and we have noted it

    def send(self, interaction: dict[str, Any], results: Sequence[Result], place: Place) -> Handled:
        """Answer all calls of *interaction* at once.

        Raises Retry where it is worth asking again, Refused where Gemini won't have it, both with
        Gemini's words: a replay sends the same results once more.
        """
        begun = self.continuations.begin(interaction["id"], place, lease=self.lease, wait=self.wait)
        if not begun.granted:
            return self._standing(begun)
        body = self._body(interaction, results, begun.continuation.key)
        successor = self._create(interaction["id"], body)
        return self.noted(interaction["id"], successor, body)

    def _standing(self, begun: Begun) -> Handled:
        """What to do where somebody sent it already or may have."""
        state, successor = begun.continuation.state, begun.continuation.successor_id
        if state is SendState.SENT and successor is not None:
            return self.noted(begun.continuation.interaction_id, successor)
        if state is SendState.UNKNOWN:
            return Handled("parked")
        if state is SendState.GIVEN_UP:
            return Handled("given_up")
        raise Retry(f"the continuation is {state}", at_least=begun.busy)

    def _create(self, interaction_id: str, body: dict[str, Any]) -> str:
        """The successor's id; whatever happens is noted first."""
        try:
            return self.gemini.create(**body).id
        except AnswerLost as error:
            insisting(lambda: self.continuations.lost(interaction_id), self.lease)
            raise Retry(f"waiting for the event: {error.reason}", after=self.wait) from error
        except (Retry, Reject) as error:
            self._not_sent(interaction_id, error)
            if isinstance(error, Refused) and error.status == BAD_REQUEST:
                raise Retry(error.reason, most=MOST_REFUSALS) from error
            raise

    def _not_sent(self, interaction_id: str, error: Retry | Reject) -> None:
        insisting(lambda: self.continuations.not_sent(interaction_id, error.reason), self.lease)

    def _body(
        self, interaction: dict[str, Any], results: Sequence[Result], key: str
    ) -> dict[str, Any]:
        job = self.jobs.get("interaction", interaction["id"])
        started = (job.request if job else None) or {}
        kept = {name: started[name] for name in KEPT if started.get(name)}
        try:
            return continuation(
                interaction,
                fitted(results),
                **{"tools": list(self.declarations), **kept},
                user_metadata={marks.MARK: key},
            )
        except ValueError as error:
            refused = Reject(str(error))
            self._not_sent(interaction["id"], refused)
            raise refused from error

    def noted(
        self, interaction_id: str, successor: str, body: Mapping[str, Any] | None = None
    ) -> Handled:
        """Note it in the continuation and both jobs, again where a crash came between."""
        insisting(lambda: self.continuations.sent(interaction_id, successor), self.lease)
        self.jobs.record("interaction", successor, "started", ours=True, **_started(body))
        self.jobs.record("interaction", interaction_id, "continued", event_type=ASKED)
        log.info("interaction_continued", id=interaction_id, successor=successor)
        return Handled("continued")


def _started(body: Mapping[str, Any] | None) -> dict[str, Any]:
    """What the successor's job keeps of the request that started it."""
    if body is None:
        return {}
    metadata = (body.get("webhook_config") or {}).get("user_metadata")
    request = {name: body[name] for name in KEPT if body.get(name)}
    return {"request": request, "user_metadata": metadata}
