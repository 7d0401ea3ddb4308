"""Nothing is missed: the reconciler on a real ledger, with a Gemini that answers as told."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from gemhooks import events, heads
from gemhooks.errors import Gone, NotYet, PublishFailed, Refused, Retry
from gemhooks.gemini.errors import of_status
from gemhooks.ledger import Job, Ledgers, open_ledger
from gemhooks.messages import Message, Source
from gemhooks.metrics import ReconcilerMetrics
from gemhooks.testing import MemoryPublisher
from workers.reconcile import one_round
from workers.reconciling import Limits, Reconciler
from workers.sightings import Sighting

LIMITS = Limits(
    expected={"interaction": 0.0, "batch": 0.0, "video": 0.0},
    every=3600.0,  # so that one round looks once at each job
    grace=60.0,
    stuck_after=48 * 3600.0,
    list_every=900.0,
    rate=1000.0,
)
COMPLETED = Sighting("completed", has_ended=True)
RUNNING = Sighting("in_progress")


@dataclass
class ToldObserver:
    """Says of each job what it was told to."""

    sights: dict[str, Sighting | Exception] = field(default_factory=dict)
    listed: list[tuple[str, Sighting]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)

    def look(self, kind: str, job_id: str) -> Sighting:
        self.asked.append(job_id)
        if len(self.asked) >= 20:  # a job that stays due would be asked for ever
            self.stop.set()
        sight = self.sights.get(job_id, RUNNING)
        if isinstance(sight, Exception):
            raise sight
        return sight

    def batches(self) -> Iterator[tuple[str, Sighting]]:
        yield from self.listed


@dataclass
class MemoryQueues:
    """Keeps what is sent to one queue only."""

    sent: list[tuple[str, Message]] = field(default_factory=list)

    def send(self, queue: str, message: Message) -> Future[None]:
        self.sent.append((queue, message))
        future: Future[None] = Future()
        future.set_result(None)
        return future


@dataclass
class Bench:
    """A reconciler and all that it touches."""

    ledgers: Ledgers
    observer: ToldObserver = field(default_factory=ToldObserver)
    publisher: MemoryPublisher = field(default_factory=MemoryPublisher)
    queues: MemoryQueues = field(default_factory=MemoryQueues)
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    limits: Limits = LIMITS

    def __post_init__(self) -> None:
        self.metrics = ReconcilerMetrics(self.registry)

    def reconcile(self, times: int = 1, *, hurried: bool = True) -> None:
        """Run rounds; *hurried*, every job is due in each."""
        reconciler = self.reconciler()
        for _ in range(times):
            for job in self.ledgers.jobs.list(limit=1000) if hurried else ():
                self.ledgers.lookups.again(job, after=-1.0)
            reconciler.round()

    def reconciler(self) -> Reconciler:
        return Reconciler(
            self.observer,
            self.ledgers,
            self.publisher,
            self.metrics,
            self.limits,
            send=self.queues.send,
            stop=self.observer.stop,
            jitter=lambda: 0.5,
        )

    def started(self, job_id: str = "v1_x", kind: str = "interaction", **more: Any) -> Job:
        return self.ledgers.jobs.record(kind, job_id, "started", **more)

    def job(self, job_id: str = "v1_x", kind: str = "interaction") -> Job:
        found = self.ledgers.jobs.get(kind, job_id)
        assert found is not None
        return found

    def published(self) -> list[str]:
        return [message.type for message in self.publisher.messages]

    def looks(self, kind: str, outcome: str) -> float | None:
        labels = {"kind": kind, "outcome": outcome}
        return self.registry.get_sample_value("gemhooks_reconciler_looks_total", labels)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with closing(open_ledger(f"sqlite:///{tmp_path}/ledger.db")) as ledgers:
        yield Bench(ledgers)


@pytest.mark.parametrize(
    ("kind", "job_id", "state"),
    [
        *[
            ("interaction", "v1_x", state)
            for state in ("completed", "failed", "cancelled", "incomplete", "budget_exceeded")
        ],
        *[("batch", "batches/b1", state) for state in ("succeeded", "failed", "cancelled")],
        ("batch", "batches/b1", "expired"),
        ("video", "models/veo/operations/o1", "generated"),
        ("video", "models/veo/operations/o1", "failed"),
    ],
)
def test_an_end_that_no_event_told_is_told_once_in_geminis_place(
    bench: Bench, kind: str, job_id: str, state: str
) -> None:
    bench.started(job_id, kind, user_metadata={"job": "7"})
    bench.observer.sights[job_id] = Sighting(state, has_ended=True, error_code="13")
    bench.reconcile(times=3)

    (message,) = bench.publisher.messages
    event = events.parse(message.body)
    assert (message.type, message.source) == (f"{kind}.{state}", Source.POLL)
    assert event.subject == heads.subject(f"{kind}.{state}", job_id)
    assert event.data.user_metadata == {"job": "7"}
    assert isinstance(event.data, events.Failure)
    assert event.data.error_code == "13"
    assert (bench.looks(kind, "ended"), bench.looks(kind, "told")) == (1, 2)


def test_an_interaction_that_waits_unheard_of_is_told_too(bench: Bench) -> None:
    bench.started()
    bench.observer.sights["v1_x"] = Sighting("requires_action")
    bench.reconcile(times=2)

    assert bench.published() == ["interaction.requires_action"]
    assert bench.looks("interaction", "waiting") == 1


def test_an_interaction_of_ours_that_was_left_alone_is_looked_at_once_more(bench: Bench) -> None:
    bench.ledgers.jobs.record("interaction", "v1_x", "requires_action")  # its event came first
    bench.started(ours=True)
    bench.ledgers.handled.done("gemhooks.functions", "interaction.requires_action:v1_x")
    bench.observer.sights["v1_x"] = Sighting("requires_action")
    bench.reconcile(times=3)

    assert bench.published() == ["interaction.waiting"]
    assert bench.looks("interaction", "reminded") == 1


@pytest.mark.parametrize("state", ["completed", "requires_action"])
def test_what_an_event_told_is_not_asked_about(bench: Bench, state: str) -> None:
    bench.started()
    bench.ledgers.jobs.record("interaction", "v1_x", state)
    bench.reconcile()

    assert bench.observer.asked == []


def test_an_event_that_somebody_is_at_is_not_told_again(bench: Bench) -> None:
    bench.started()
    bench.observer.sights["v1_x"] = COMPLETED
    bench.ledgers.handled.claim(
        "gemhooks.interactions", "interaction.completed:v1_x", redelivered=False
    )
    bench.reconcile()

    assert bench.published() == []
    assert bench.looks("interaction", "told") == 1


def test_an_end_of_this_moment_waits_for_its_event(bench: Bench) -> None:
    bench.started()
    bench.observer.sights["v1_x"] = replace(COMPLETED, changed_at=time.time())
    bench.reconcile()
    fresh = bench.published()
    bench.observer.sights["v1_x"] = replace(COMPLETED, changed_at=time.time() - 61)
    bench.reconcile()

    assert (fresh, bench.published()) == ([], ["interaction.completed"])


@pytest.mark.parametrize("ahead", [3600.0, 30 * 365 * 86400.0])
def test_an_end_that_a_wrong_clock_puts_into_the_future_is_told_all_the_same(
    bench: Bench, ahead: float
) -> None:
    """It seemed to have come a moment ago until that time came."""
    bench.started()
    bench.observer.sights["v1_x"] = replace(COMPLETED, changed_at=time.time() + ahead)
    bench.reconcile()

    assert bench.published() == ["interaction.completed"]


def test_a_job_that_runs_is_seen_to_run(bench: Bench) -> None:
    bench.started()
    bench.reconcile()

    assert (bench.job().state, bench.job().source, bench.job().trouble) == (
        "in_progress",
        "poll",
        None,
    )
    assert bench.published() == []


def test_a_job_that_gemini_does_not_know_for_a_while_still_ends(bench: Bench) -> None:
    bench.started()
    bench.observer.sights["v1_x"] = NotYet("not_found")
    bench.reconcile(times=5)
    vanished = bench.job().trouble
    bench.observer.sights["v1_x"] = COMPLETED
    bench.reconcile()

    assert (vanished, bench.job().trouble) == ("vanished", None)
    assert bench.published() == ["interaction.completed"]


def test_a_job_that_is_gone_or_runs_too_long_is_seen_in_a_metric(bench: Bench) -> None:
    bench.started("v1_gone")
    bench.started("v1_slow", expected_at=time.time() - 49 * 3600)
    bench.observer.sights["v1_gone"] = Gone("410")
    bench.reconcile()

    conditions = {
        each: bench.registry.get_sample_value(
            "gemhooks_jobs", {"kind": "interaction", "condition": each}
        )
        for each in ("open", "stuck", "vanished")
    }
    assert conditions == {"open": 2, "stuck": 1, "vanished": 1}
    assert {job.id for job in bench.ledgers.jobs.list(troubled=True)} == {"v1_gone", "v1_slow"}


def test_what_ended_and_was_told_but_is_not_handled_gets_stuck(bench: Bench) -> None:
    bench.started(expected_at=time.time() - 49 * 3600)
    bench.observer.sights["v1_x"] = COMPLETED
    bench.reconcile()
    told = bench.job().trouble
    bench.reconcile()

    assert (told, bench.job().trouble) == (None, "stuck")


def test_what_was_handled_too_early_is_told_once_more_under_a_key_of_its_own(
    bench: Bench,
) -> None:
    bench.started("batches/b1", "batch")
    bench.ledgers.jobs.record("batch", "b1", "unknown", event_type="batch.succeeded")
    bench.ledgers.handled.done("gemhooks.batches", "batch.succeeded:b1")
    bench.observer.sights["batches/b1"] = Sighting("succeeded", has_ended=True)
    bench.reconcile(times=4)

    ((queue, message),) = bench.queues.sent
    key = message.key_of(events.parse(message.body).subject)
    assert (queue, key, message.source) == (
        "gemhooks.batches",
        "batch.succeeded:b1#1",
        Source.POLL,
    )
    assert bench.published() == []
    assert (bench.looks("batch", "reminded"), bench.looks("batch", "told")) == (1, 3)


def test_what_the_reconciler_told_too_early_itself_is_told_once_more(bench: Bench) -> None:
    bench.started()
    bench.observer.sights["v1_x"] = COMPLETED
    bench.reconcile()
    bench.ledgers.jobs.record("interaction", "v1_x", "idle")
    bench.ledgers.handled.done("gemhooks.interactions", "interaction.completed:v1_x")
    bench.reconcile(times=3)

    assert bench.published() == ["interaction.completed"]
    assert [queue for queue, _ in bench.queues.sent] == ["gemhooks.interactions"]


def test_a_replay_that_a_person_forced_is_not_in_the_way_of_what_is_told_once_more(
    bench: Bench,
) -> None:
    bench.started()
    for key in ("interaction.completed:v1_x", "interaction.completed:v1_x#1"):
        bench.ledgers.handled.done("gemhooks.interactions", key)
    bench.observer.sights["v1_x"] = COMPLETED
    bench.reconcile()

    assert [message.replay for _, message in bench.queues.sent] == [2]


def test_each_end_is_told_once_more_by_itself(bench: Bench) -> None:
    bench.started()
    for state in ("failed", "completed"):
        bench.ledgers.handled.done("gemhooks.interactions", f"interaction.{state}:v1_x")
        bench.observer.sights["v1_x"] = Sighting(state, has_ended=True)
        bench.reconcile(times=2)

    assert [message.type for _, message in bench.queues.sent] == [
        "interaction.failed",
        "interaction.completed",
    ]


def test_what_ends_while_it_is_looked_up_is_not_told_again(bench: Bench) -> None:
    class Slow(ToldObserver):
        def look(self, kind: str, job_id: str) -> Sighting:
            sighting = super().look(kind, job_id)
            bench.ledgers.jobs.record(kind, job_id, sighting.state)
            bench.ledgers.handled.done("gemhooks.interactions", "interaction.completed:v1_x")
            return sighting

    bench.started()
    bench.observer = Slow({"v1_x": COMPLETED})
    bench.reconcile()

    assert (bench.published(), bench.queues.sent) == ([], [])


def test_an_end_that_was_begun_and_is_not_handled_is_left_to_its_message(bench: Bench) -> None:
    """It waits for its next attempt, or lies among the dead letters."""
    bench.started(expected_at=time.time() - 49 * 3600)
    at = ("gemhooks.interactions", "interaction.failed:v1_x")
    bench.ledgers.handled.claim(*at, redelivered=False)
    bench.ledgers.handled.release(*at)
    bench.observer.sights["v1_x"] = Sighting("failed", has_ended=True)
    bench.reconcile(times=4)

    assert (bench.published(), bench.queues.sent) == ([], [])


def test_an_interaction_that_was_reminded_and_ends_otherwise_is_told(bench: Bench) -> None:
    bench.started(ours=True)
    bench.ledgers.handled.done("gemhooks.functions", "interaction.requires_action:v1_x")
    bench.observer.sights["v1_x"] = Sighting("requires_action")
    bench.reconcile()
    bench.observer.sights["v1_x"] = Sighting("cancelled", has_ended=True)
    bench.reconcile()

    assert bench.published() == ["interaction.waiting", "interaction.cancelled"]


def test_a_refused_job_does_not_keep_the_others_waiting(bench: Bench) -> None:
    bench.started("v1_bad")
    bench.started("v1_good")
    bench.observer.sights = {"v1_bad": Refused("400"), "v1_good": COMPLETED}
    bench.reconcile()

    assert bench.published() == ["interaction.completed"]
    assert bench.looks("interaction", "refused") == 1


def test_where_gemini_asks_for_patience_the_round_ends(bench: Bench) -> None:
    for number in range(3):
        bench.started(f"v1_{number}")
    bench.observer.sights = {f"v1_{number}": Retry("429", at_least=7.0) for number in range(3)}

    assert one_round(bench.reconciler()) == 7.0
    assert len(bench.observer.asked) == 1


def test_the_delay_in_the_body_of_a_429_is_a_pause_of_the_reconciler(bench: Bench) -> None:
    body = {"error": {"code": 429, "details": [{"retryDelay": "34.5s"}]}}
    bench.started()
    bench.observer.sights["v1_x"] = of_status(429, {}, body, key="any")

    assert one_round(bench.reconciler()) == 34.5


def test_an_event_that_the_broker_did_not_take_is_told_the_next_time(bench: Bench) -> None:
    bench.started()
    bench.observer.sights["v1_x"] = COMPLETED
    bench.publisher.error = PublishFailed("timeout")
    with pytest.raises(PublishFailed):
        bench.reconcile()
    bench.publisher.error = None
    bench.reconcile()

    assert bench.published() == ["interaction.completed"]


def test_told_to_stop_it_looks_at_nothing_more(bench: Bench) -> None:
    bench.started()
    bench.observer.stop.set()
    bench.reconcile()

    assert bench.observer.asked == []


def test_listed_batches_become_known_unless_they_are_history(bench: Bench) -> None:
    now = time.time()
    bench.observer.listed = [
        ("batches/runs", Sighting("running")),
        ("batches/new", Sighting("succeeded", has_ended=True, changed_at=now - 3600)),
        ("batches/old", Sighting("succeeded", has_ended=True, changed_at=now - 49 * 3600)),
        ("batches/undated", Sighting("succeeded", has_ended=True)),
    ]
    bench.observer.sights = dict(bench.observer.listed)
    bench.reconcile()

    assert {job.id for job in bench.ledgers.jobs.list()} == {"batches/runs", "batches/new"}
    assert bench.published() == ["batch.succeeded"]


def test_a_listed_batch_that_ended_is_told_before_its_expected_time(bench: Bench) -> None:
    bench.started("batches/b1", "batch", expected_at=time.time() + 9999)
    ended = Sighting("failed", has_ended=True, changed_at=time.time() - 3600)
    bench.observer.listed, bench.observer.sights = [("batches/b1", ended)], {"batches/b1": ended}
    bench.reconcile(hurried=False)

    assert bench.published() == ["batch.failed"]


def test_a_list_that_is_refused_does_not_keep_the_jobs_waiting(bench: Bench) -> None:
    @dataclass
    class RefusesToList(ToldObserver):
        def batches(self) -> Iterator[tuple[str, Sighting]]:
            raise Refused("403")

    bench.observer = RefusesToList({"v1_x": COMPLETED})
    bench.started()
    bench.reconcile()

    assert bench.published() == ["interaction.completed"]
