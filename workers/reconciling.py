"""Looks up the jobs that no event told about, and tells in Gemini's place."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from typing import Any, Protocol

import structlog
from msgspec.structs import replace

from gemhooks import heads, jsontext, topology
from gemhooks.errors import Gone, NotYet, Reject, Retry
from gemhooks.functions import resuming
from gemhooks.ledger import Job, Ledgers
from gemhooks.messages import Message, Publisher, Source, confirm
from gemhooks.metrics import ReconcilerMetrics
from workers.sightings import Sighting

MOVING = ("fresh", "ended", "waiting", "reminded")  # what was found of a job that is not stuck
ASKED = "interaction.requires_action"
KEPT_FOR = 48 * 3600.0  # seconds; what ended before has no result left that we could fetch
Send = Callable[[str, Message], "Future[None]"]  # to one queue only
log = structlog.get_logger()


class Observer(Protocol):
    """Gemini, for those who only look."""

    def look(self, kind: str, job_id: str, /) -> Sighting:
        """How that job stands; NotYet, Retry or Reject where that is not to be had."""
        ...

    def batches(self) -> Iterator[tuple[str, Sighting]]:
        """The project's batches and how they stand; Retry or Reject in the middle of it."""
        ...


@dataclass(frozen=True)
class Limits:
    """How patient and how fast it is; seconds, and requests a second."""

    expected: Mapping[str, float]  # by kind, from a job's start to its end
    every: float  # between two rounds, and the shortest between two looks at one job
    grace: float  # an event is on its way for so long
    stuck_after: float
    list_every: float
    rate: float


class Reconciler:
    """One round after the other; several may run, they share the jobs."""

    def __init__(
        self,
        observer: Observer,
        ledgers: Ledgers,
        publisher: Publisher,
        metrics: ReconcilerMetrics,
        limits: Limits,
        *,
        send: Send,
        stop: threading.Event,
        jitter: Callable[[], float],
    ) -> None:
        self._observer = observer
        self._jobs, self._lookups = ledgers.jobs, ledgers.lookups
        self._handled = ledgers.handled
        self._publisher = publisher
        self._send = send
        self._metrics = metrics
        self._limits = limits
        self._stop = stop
        self._jitter = jitter  # 0 to 1
        self._list_at = 0.0

    def round(self) -> None:
        """Look at everything that is due.

        Ends early with Retry where Gemini asks for patience or can't be reached, with Unavailable
        where the broker or the database can't; what was due then is due again soon.
        """
        self._lookups.plan(self._limits.expected)
        self._list_batches()
        while not self._stop.is_set():
            job = self._lookups.take(shortest=self._limits.every, jitter=self._uneven(1.0))
            if job is None:
                break
            self._look(job)
            self._stop.wait(self._uneven(1 / self._limits.rate))
        self._metrics.counted(self._lookups.tally())

    def _uneven(self, seconds: float) -> float:
        """Around *seconds*: many that wait for the same must not come at once."""
        return seconds * (0.8 + 0.4 * self._jitter())

    def _look(self, job: Job) -> None:
        try:
            outcome = self._judge(job, self._observer.look(job.kind, job.id))
        except NotYet:
            outcome = self._missed(job, for_good=False)
        except Gone:
            outcome = self._missed(job, for_good=True)
        except Reject as error:
            outcome = "refused"
            log.warning("lookup_refused", kind=job.kind, id=job.id, reason=error.reason)
        except Retry:
            self._metrics.looked(job.kind, "unreachable")
            raise
        self._metrics.looked(job.kind, outcome)
        log.info("job_looked_up", kind=job.kind, id=job.id, outcome=outcome)

    def _missed(self, job: Job, *, for_good: bool) -> str:
        after = self._lookups.missed(job, for_good=for_good)
        if after is not None and after.trouble and not job.trouble:
            log.warning("job_vanished", kind=job.kind, id=job.id)
        return "missing"

    def _judge(self, job: Job, sighting: Sighting) -> str:
        outcome = self._tell(job, sighting) if sighting.has_event else self._run_on(job, sighting)
        patience = None if outcome in MOVING else self._limits.stuck_after
        after = self._lookups.seen(job, stuck_after=patience)
        if after is not None and after.trouble and not job.trouble:
            log.warning("job_stuck", kind=job.kind, id=job.id, state=sighting.state)
        return outcome

    def _run_on(self, job: Job, sighting: Sighting) -> str:
        if sighting.state != job.state:
            self._jobs.record(job.kind, job.id, sighting.state, source=Source.POLL.value)
        return "running"

    def _tell(self, job: Job, sighting: Sighting) -> str:
        """Publish the event that Gemini did not send, if it did not."""
        if self._is_fresh(sighting):
            self._lookups.again(job, after=self._limits.grace)
            return "fresh"
        event_type = f"{job.kind}.{sighting.state}"
        if self._was_told(event_type, job):
            return self._remind(job, sighting)
        confirm(self._publisher.publish(_message(event_type, job, sighting)))
        self._lookups.reported(job, event_type)
        self._metrics.missed(event_type)
        log.warning("event_missed", event_type=event_type, kind=job.kind, id=job.id)
        return "ended" if sighting.has_ended else "waiting"

    def _remind(self, job: Job, sighting: Sighting) -> str:
        """Have it looked at once more: told too early, it was left as it was."""
        if sighting.has_ended:
            return self._tell_again(job, sighting)
        if not job.ours or job.reported == resuming.TYPE:
            return "told"
        message = resuming.look_again(job.id, by="reconciler")
        confirm(self._publisher.publish(message, exchange=topology.RESULTS))
        self._lookups.reported(job, resuming.TYPE)
        return "reminded"

    def _tell_again(self, job: Job, sighting: Sighting) -> str:
        """Once, to the queues that handled it, under a key of its own; no others hear it twice."""
        event_type = f"{job.kind}.{sighting.state}"
        if job.reported == _again(event_type) or not self._is_left(event_type, job):
            return "told"
        message = _message(event_type, job, sighting)
        for queue in _queues_of(event_type):
            confirm(self._send(queue, self._afresh(queue, message, job)))
        self._lookups.reported(job, _again(event_type))
        log.warning("event_told_again", event_type=event_type, kind=job.kind, id=job.id)
        return "reminded"

    def _is_left(self, event_type: str, job: Job) -> bool:
        """Its event was handled, and yet it is open."""
        subject = heads.subject(event_type, job.id)
        if not any(self._handled.is_done(queue, subject) for queue in _queues_of(event_type)):
            return False
        now = self._jobs.get(job.kind, job.id)  # it may have ended while we looked
        return now is not None and now.ended_at is None

    def _afresh(self, queue: str, message: Message, job: Job) -> Message:
        """*message* as the first forced replay that the queue has not seen."""
        subject = heads.subject(message.type, job.id)
        replays = (replace(message, replay=number) for number in count(1))
        return next(
            each for each in replays if not self._handled.is_known(queue, each.key_of(subject))
        )

    def _is_fresh(self, sighting: Sighting) -> bool:
        """It ended a moment ago: its event may be on its way. A time to come is a wrong clock's."""
        changed_at = sighting.changed_at
        return changed_at is not None and abs(time.time() - changed_at) < self._limits.grace

    def _was_told(self, event_type: str, job: Job) -> bool:
        if job.reported in (event_type, _again(event_type)):
            return True
        if job.reported == resuming.TYPE and event_type == ASKED:
            return True
        subject = heads.subject(event_type, job.id)
        return any(self._handled.is_known(queue, subject) for queue in _queues_of(event_type))

    def _list_batches(self) -> None:
        """Learn of batches that nobody registered; of the old ones only what still runs."""
        if time.monotonic() < self._list_at:
            return
        self._list_at = time.monotonic() + self._uneven(self._limits.list_every)
        try:
            for name, sighting in self._observer.batches():
                self._learn(name, sighting)
        except Reject as error:
            log.warning("batches_not_listed", reason=error.reason)

    def _learn(self, name: str, sighting: Sighting) -> None:
        job = self._jobs.get("batch", name)
        if job is None and not _is_over(sighting):
            job = self._jobs.record("batch", name, "started", source="list")
        if job is not None and job.ended_at is None and sighting.has_ended:
            self._lookups.again(job, after=0.0)


def _queues_of(event_type: str) -> Iterator[str]:
    """The built-in workers' queues that such an event lands in."""
    for queue in topology.BUILT_IN:
        if any(topology.matches(pattern, event_type) for _, pattern in queue.bindings):
            yield queue.name


def _again(event_type: str) -> str:
    """How the jobs remember that it was told twice."""
    return f"{event_type} again"


def _is_over(sighting: Sighting) -> bool:
    """Ended so long ago that its results are gone, as everything is on the first day."""
    if not sighting.has_ended:
        return False
    return sighting.changed_at is None or time.time() - sighting.changed_at > KEPT_FOR


def _message(event_type: str, job: Job, sighting: Sighting) -> Message:
    """The event as Gemini would have sent it; its id is the same whoever finds it missing."""
    when = datetime.now(UTC) if sighting.changed_at is None else _time(sighting.changed_at)
    told = when.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    body = jsontext.dumps(
        {"type": event_type, "version": "v1", "timestamp": told, "data": _data(job, sighting)}
    )
    return Message(
        id=f"poll/{heads.subject(event_type, job.id)}",
        type=event_type,
        body=body,
        timestamp=int(time.time()),
        time=told,
        source=Source.POLL,
        traceparent=heads.head_of(body).traceparent,
    )


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _data(job: Job, sighting: Sighting) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "error_code": sighting.error_code,
        "error_message": sighting.error_message,
        "user_metadata": sighting.user_metadata or job.user_metadata,
        **sighting.pointers,
    }
    return {"id": job.id} | {name: value for name, value in facts.items() if value}
