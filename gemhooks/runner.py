"""Handle one message: claim it, decode it, call its handler, mark it, settle it."""

import os
import random
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum

import structlog

from gemhooks import events, forks, logs, topology
from gemhooks.consumers import Handled, Subscription
from gemhooks.errors import (
    LedgerUnavailable,
    NotYet,
    PublishFailed,
    Reject,
    Retry,
    Unavailable,
    Undecodable,
)
from gemhooks.handlers import Skipped, ended
from gemhooks.handling import handling
from gemhooks.logs import redact
from gemhooks.messages import Claim, Claimed, DeadLetter, Delivery, Ledger, Message, Publisher
from gemhooks.metrics import WorkerMetrics
from gemhooks.tracing import OFF, Tracing

log = structlog.get_logger()

JITTER = 0.2  # of the delay; retries of a burst must not come back as one
# A redelivered message that was begun so often kills its process. With 3, somebody else's kill -9
# every few seconds made innocent ones look like it (seen in a chaos run).
MOST_STARTS = 5
SUSPECT = 2  # starts; from here on it runs alone, so that no neighbour is blamed for it
BUSY_DELAY = 5.0  # seconds until a copy asks again whether the other one is done
AWAY_DELAY = 5.0  # seconds until a message asks again whether what was away is back
MARK_PATIENCE, MARK_PAUSE = 60.0, 0.5  # seconds
LONGEST_AFTER = 24 * 3600.0  # seconds; nobody may park a message for longer
MOST_NOT_FOUND_ON_A_HINT = 3  # an unproven id that Gemini doesn't know is soon given up


class Fate(StrEnum):
    """What becomes of a message."""

    DONE = "done"
    DUPLICATE = "duplicate"  # handled before
    RETRY = "retry"
    WAIT = "wait"  # not tried: a copy is being handled, or the ledger is away
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class Outcome:
    fate: Fate
    reason: str = ""
    after: float = 0.0  # seconds
    letter: DeadLetter | None = None


DONE = Outcome(Fate.DONE)
SKIPPED = Outcome(Fate.DONE, "not for this handler")
ANOTHER_SUSPECT_RUNS = Outcome(Fate.WAIT, "another suspect runs", BUSY_DELAY)


@dataclass(slots=True)
class Work:
    """One delivery on its way; *key* is what the ledger knows it by."""

    delivery: Delivery
    key: str = ""
    claimed: Claimed | None = None  # where that was done ahead
    outcome: Outcome = DONE
    began: float = field(default_factory=time.perf_counter)
    ended: float = 0.0  # time.monotonic() of its handler's end
    then: Callable[[], None] | None = None  # called when it has run


class Runner:
    """Serves one subscription."""

    def __init__(
        self,
        subscription: Subscription,
        ledger: Ledger,
        metrics: WorkerMetrics,
        *,
        schedule: Sequence[float],
        jitter: Callable[[], float] = random.random,
        alone: threading.Semaphore | None = None,
        publisher: Publisher | None = None,
        tracing: Tracing = OFF,
    ) -> None:
        """*alone* is held by the one suspect that a process runs at a time; *publisher* is for
        the handlers."""
        self.tracing = tracing
        self.subscription = subscription
        self.ledger = ledger
        self.counts = metrics.of(subscription.queue)
        self.schedule = schedule
        self.jitter = jitter
        self.alone = alone or threading.Semaphore(1)
        self.publisher = publisher
        self.log = log.bind(queue=subscription.queue)  # bound once: a line costs a sixth less
        self.mark: Callable[[Work], None] = self.mark_and_end  # or a bookkeeper's, who has many

    def process(self, delivery: Delivery) -> None:
        """Handle one delivery from start to end. Never raises for a bad message."""
        self.run(Work(delivery))

    def run(self, work: Work) -> None:
        """As :meth:`process`, from where *work* stands."""
        message = work.delivery.message
        named = logs.about.set(self.names(message))
        self.counts.in_flight.inc()
        work.began = time.perf_counter()
        try:
            with self.tracing.handling(message, self.subscription.queue) as traced:
                work.outcome = self.claim_and_decide(work)
                traced(work.outcome.fate.value, work.outcome.reason)
        finally:
            self.counts.in_flight.dec()
            logs.about.reset(named)
        work.ended = time.monotonic()
        # Mark first, acknowledge second: a crash between them costs a look, never a message.
        if work.outcome.fate is Fate.DONE:
            self.mark(work)
        else:
            self.end(work, work.outcome)

    def names(self, message: Message) -> dict[str, str]:
        """What is in every line about it."""
        return {
            "webhook_id": message.id[:255],
            "event_type": message.routing_key,
            "queue": self.subscription.queue,
        }

    def claim_and_decide(self, work: Work) -> Outcome:
        """Decide under a claim in the ledger, so that copies of a message run once."""
        work.key = work.key or self.key_of(work.delivery.message)
        try:
            claimed = self.claimed(work)
            if claimed.claim is not Claim.GRANTED:
                return self.unclaimed(claimed, work.delivery.message)
            outcome = self.decide_alone(work.delivery.message, claimed)
            if outcome.fate is not Fate.DONE:
                never_began = outcome is ANOTHER_SUSPECT_RUNS
                self.ledger.release(self.subscription.queue, work.key, ended=not never_began)
        except LedgerUnavailable as error:
            return away(error)
        return outcome

    def claimed(self, work: Work) -> Claimed:
        """Made ahead, where that is ours still: a frozen process wakes up after its leases."""
        ahead = work.claimed
        if ahead and (ahead.claim is not Claim.GRANTED or self.holds(work)):
            return ahead
        return self.claim(work)

    def holds(self, work: Work) -> bool:
        return self.ledger.holds(self.subscription.queue, work.key)

    def claim(self, work: Work) -> Claimed:
        redelivered = work.delivery.redelivered
        return self.ledger.claim(self.subscription.queue, work.key, redelivered=redelivered)

    def decide_alone(self, message: Message, claimed: Claimed) -> Outcome:
        """What may have killed its process runs one at a time, and no more where it surely does."""
        if claimed.starts < SUSPECT:
            return self.decide(message)
        if claimed.starts > MOST_STARTS:
            return kills(claimed)
        if not self.alone.acquire(blocking=False):
            return ANOTHER_SUSPECT_RUNS
        try:
            return self.decide(message)
        finally:
            self.alone.release()

    def mark_and_end(self, work: Work) -> None:
        """In this thread, as long as it takes."""
        while True:
            try:
                self.ledger.done(self.subscription.queue, work.key)
                break
            except LedgerUnavailable as error:
                if self.gives_up(work):
                    work.outcome = away(error)
                    break
                time.sleep(MARK_PAUSE)
        self.end(work, work.outcome)

    def gives_up(self, work: Work) -> bool:
        """It is done, so a database that is away for a while must not make it done twice."""
        return time.monotonic() > work.ended + MARK_PATIENCE

    def end(self, work: Work, outcome: Outcome) -> None:
        """Settle it; one line and one count for each message."""
        message = work.delivery.message
        self.settle(work.delivery, outcome)
        fate, seconds = outcome.fate.value, time.perf_counter() - work.began
        self.log.info(
            "message_handled",
            outcome=fate,
            reason=outcome.reason,
            attempt=message.attempt,
            milliseconds=round(seconds * 1000, 1),
            webhook_id=message.id[:255],
            event_type=message.routing_key,
        )
        lag = message.age(time.time()) if outcome.fate is Fate.DONE else None
        self.counts.handled(message.type, fate, seconds, lag)

    def key_of(self, message: Message) -> str:
        """What the ledger knows it by: what Gemini tells, by its subject, however often it does.

        Results of ours, and what can't be read, are known by the message's own id.
        """
        if self.subscription.rules.once_per_resource:
            with suppress(Undecodable):
                event = events.parse(message.body)
                if event.exchange == topology.EVENTS:
                    return message.key_of(event.subject)
        return message.key

    def unclaimed(self, claimed: Claimed, message: Message) -> Outcome:
        match claimed.claim:
            case Claim.DONE:
                return Outcome(Fate.DUPLICATE)
            case Claim.UNKNOWN:  # for all we know it killed its process: that was an attempt
                lost = Retry("its process died")
                return self.again(message, lost, given_up="kills_its_process")
            case _:
                return Outcome(Fate.WAIT, "a copy is being handled", BUSY_DELAY)

    def decide(self, message: Message) -> Outcome:
        """Call the handler and say what becomes of the message. Touches no broker."""
        process = os.getpid()
        try:
            outcome = self.call(message)
        except BaseException as error:  # SystemExit too: who would settle the message then?
            forks.leave(process, error)
            if _is_of_a_person(error):
                raise
            return self.answer_to(error, message)
        forks.leave(process)
        return outcome

    def answer_to(self, error: BaseException, message: Message) -> Outcome:
        try:
            match error:
                case Undecodable() | Reject():
                    why = "rejected" if isinstance(error, Reject) else "undecodable"
                    return dead(why, _said(error), error)
                case Retry():
                    return self.again(message, error)
                case Unavailable():
                    return self.hindered(message, error)
        except Exception as broken:  # a user's subclass, say, without what is to be read in it
            error = broken
        log.error("handler_failed", exc_info=error)
        return self.again(message, error)

    def hindered(self, message: Message, error: Unavailable) -> Outcome:
        """Uncounted, except where the broker will never take what the handler publishes."""
        if isinstance(error, PublishFailed) and not error.passes:
            return self.again(message, error)
        return away(error)

    def call(self, message: Message) -> Outcome:
        event = events.parse(message.body)
        handler = self.subscription.handler_of(event)
        if handler is None:
            return dead("misrouted", f"no handler for {message.routing_key} in this queue")
        with handling(message, self.publisher):
            said = ended(handler(event))
        if isinstance(said, Skipped):
            return SKIPPED
        return Outcome(Fate.DONE, said.reason) if isinstance(said, Handled) else DONE

    def again(
        self, message: Message, error: BaseException, *, given_up: str = "gave_up"
    ) -> Outcome:
        """One more try on the schedule, or the dead letters once it is used up."""
        unproven = isinstance(error, NotYet) and message.is_hint
        if unproven and message.attempt >= MOST_NOT_FOUND_ON_A_HINT:
            return dead("not_found", _said(error), error)
        if message.attempt >= self.allowed(error):
            return dead(given_up, _said(error), error)
        wait = self.planned(message, error) * (1 + JITTER * self.jitter())
        reason = error.reason if isinstance(error, Retry) else type(error).__name__
        return Outcome(Fate.RETRY, redact(reason)[:200], min(wait, LONGEST_AFTER))

    def planned(self, message: Message, error: BaseException) -> float:
        """Seconds until the next attempt.

        A server's wait only lengthens it: six short ones would use up the attempts of hours.
        """
        scheduled = self.schedule[message.attempt - 1]
        if not isinstance(error, Retry):
            return scheduled
        wait = max(scheduled if error.after is None else error.after, error.at_least)
        if not wait >= 0:  # NaN too; Retry() refuses it, but its fields may be set
            raise ValueError(f"a message can't wait for {wait} seconds")
        return wait

    def allowed(self, error: BaseException) -> int:
        """How many attempts there are in all."""
        scheduled = len(self.schedule) + 1
        most = error.most if isinstance(error, Retry) else None
        return scheduled if most is None else min(scheduled, most)

    def settle(self, delivery: Delivery, outcome: Outcome) -> None:
        match outcome.fate:
            case Fate.DONE | Fate.DUPLICATE:
                delivery.ack()
            case Fate.RETRY:
                again = delivery.message.next_attempt(now=int(time.time()))
                delivery.later(again, after=outcome.after)
            case Fate.WAIT:
                delivery.later(delivery.message, after=outcome.after)
            case Fate.DEAD:
                delivery.dead(outcome.letter or DeadLetter(outcome.reason))


def away(error: Unavailable) -> Outcome:
    """A part of ours is not there: no fault of the message, so no attempt is counted."""
    return Outcome(Fate.WAIT, f"{type(error).__name__}: {redact(str(error))[:200]}", AWAY_DELAY)


def kills(claimed: Claimed) -> Outcome:
    """The first start is none of those that the ledger counts, nor did the present one begin."""
    detail = f"begun {claimed.starts} times and never ended"
    letter = DeadLetter("kills_its_process", "", detail, claimed.starts, claimed.first_at)
    return Outcome(Fate.DEAD, letter.reason, letter=letter)


def _is_of_a_person(error: BaseException) -> bool:
    """Ctrl-C reaches main threads only: there somebody tries a handler by hand."""
    is_ctrl_c = isinstance(error, KeyboardInterrupt)
    return is_ctrl_c and threading.current_thread() is threading.main_thread()


def _said(error: BaseException) -> str:
    """Its text; a class of the user's may fail even at that."""
    try:
        return str(error)
    except Exception:
        return ""


def dead(reason: str, detail: str, error: BaseException | None = None) -> Outcome:
    """A dead letter whose headers say why, without a secret in them."""
    kind = type(error).__name__ if error else ""
    return Outcome(Fate.DEAD, reason, letter=DeadLetter(reason, kind, redact(detail)[:300]))
